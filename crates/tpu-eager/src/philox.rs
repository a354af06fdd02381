//! Random bits on the host: the function that programs call as `tpu_random_bits`.
//!
//! With XLA's own `rng_bit_generator` a small program takes the CPU's compiler three times as long,
//! and one that is compiled quickly runs five times as long (measured). The bits are the same.
use tpu_pjrt::{Code, CustomCall, Error, Plugin, Result};

/// Multipliers of Philox4x32.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What the key grows by in every round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Makes the function known to a plugin whose programs run on the host.
///
/// # Errors
/// What the plugin says.
pub(crate) fn register(plugin: &Plugin) -> Result<()> {
    match plugin.register_ffi("tpu_random_bits", bits) {
        Err(error) if error.code() == Code::AlreadyExists => Ok(()),
        other => other,
    }
}

/// The operand is a key and a counter of 128 bits, lower half first; the result is 32-bit words.
fn bits(call: &mut CustomCall<'_>) -> Result<()> {
    let wrong = || {
        Error::new(
            Code::InvalidArgument,
            "random bits take a key and a counter",
        )
    };
    let state = call.inputs.first().ok_or_else(wrong)?.as_slice::<u64>()?;
    let &[key, low, high] = state else {
        return Err(wrong());
    };
    let words = call.outputs.first_mut().ok_or_else(wrong)?;
    fill(key, low, high, words.as_mut_slice::<u32>()?);
    Ok(())
}

/// Fills `words` with the blocks from counter `high:low` on.
fn fill(key: u64, low: u64, high: u64, words: &mut [u32]) {
    let counter = u128::from(high) << 64 | u128::from(low);
    for (i, words) in words.chunks_mut(4).enumerate() {
        let block = block(key, counter.wrapping_add(i as u128));
        words.copy_from_slice(&block[..words.len()]);
    }
}

#[inline]
fn block(key: u64, counter: u128) -> [u32; 4] {
    let mut key = [key as u32, (key >> 32) as u32];
    let mut x = [0, 32, 64, 96].map(|shift| (counter >> shift) as u32);
    for _ in 0..ROUNDS {
        let [p, q] = [0, 1].map(|i| u64::from(x[2 * i]) * u64::from(MULTIPLIERS[i]));
        x = [
            (q >> 32) as u32 ^ x[1] ^ key[0],
            q as u32,
            (p >> 32) as u32 ^ x[3] ^ key[1],
            p as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that Philox's authors publish (Random123, `kat_vectors`).
    #[test]
    fn known_answers() {
        assert_eq!(
            block(0, 0),
            [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]
        );
        assert_eq!(
            block(u64::MAX, u128::MAX),
            [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]
        );
        assert_eq!(
            block(
                0x299F_31D0_A409_3822,
                0x0370_7344_1319_8A2E_85A3_08D3_243F_6A88
            ),
            [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]
        );
    }

    #[test]
    fn the_counter_carries() {
        let mut words = [0; 8];
        fill(1, u64::MAX, 5, &mut words);
        assert_eq!(words[..4], block(1, 5 << 64 | u128::from(u64::MAX)));
        assert_eq!(words[4..], block(1, 6 << 64));
    }
}
