//! Arrays to the device and back, copied and adopted.

use crate::program::{ALIASED, add, f32s, filled, get, put, run};
use crate::{Check, Outcome, client};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tpu_pjrt::{Arg, Buffer, Code, ElementType, HostData, Plugin, Shape, arguments};

pub(crate) const CHECKS: &[Check] = &[
    ("transfer.every_type", every_type),
    ("transfer.checks_length", checks_length),
    ("transfer.adopts_aligned_memory", adopts_aligned_memory),
    ("transfer.copies_other_memory", copies_other_memory),
    (
        "transfer.leaves_adopted_memory_alone",
        leaves_adopted_memory_alone,
    ),
    ("transfer.contains_panics", contains_panics),
    ("transfer.out_of_memory", out_of_memory),
];

fn every_type(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    for &ty in ElementType::ALL {
        // Values below 2 fit into two bits, and are booleans.
        let shape = Shape::new(ty, &[2, 3]);
        let mask = if ty.is_packed() || ty == ElementType::Pred {
            1
        } else {
            0x7f
        };
        let sent: Vec<u8> = (1..=shape.size_bytes())
            .map(|i| (i * 37) as u8 >> 2 & mask)
            .collect();
        let buffer = client.buffer_from_host(&sent, &shape, 0)?;
        let mut received = vec![0xff; sent.len()];
        buffer.to_host(&mut received)?;
        ensure!(
            received == sent,
            "{shape}: sent {sent:?}, received {received:?}"
        );
        let lent = buffer.host_bytes()?;
        ensure!(lent.is_none() == ty.is_packed(), "{shape}: {lent:?}");
        ensure!(lent.is_none_or(|bytes| bytes == sent), "{shape}: {lent:?}");
    }
    Ok(())
}

fn checks_length(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let is_refused = |result: Result<Buffer, tpu_pjrt::Error>| {
        result.err().map(|error| error.code()) == Some(Code::InvalidArgument)
    };
    for (bytes, dims) in [
        (11, [3]),
        (13, [3]),
        (4, [-1]),
        (0, [i64::MAX]),
        (8, [i64::MIN]),
    ] {
        let result = client.buffer_from_host(&vec![0; bytes], &f32s(&dims), 0);
        ensure!(
            is_refused(result),
            "`{bytes}` bytes were taken for `{dims:?}`"
        );
    }
    ensure!(
        is_refused(client.buffer_from_host(&[0; 4], &f32s(&[]), 1)),
        "no device 1"
    );
    let buffer = filled(&client, 1.0, 3)?;
    for bytes in [0, 11, 13] {
        ensure!(
            buffer.to_host(&mut vec![0; bytes]).is_err(),
            "`{bytes}` bytes were filled"
        );
    }
    Ok(())
}

/// Memory at a multiple of 64, which counts how often it is freed.
#[repr(C, align(64))]
struct Owner {
    values: [f32; 64],
    freed: Arc<AtomicUsize>,
    tell: mpsc::Sender<()>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.freed.fetch_add(1, SeqCst);
        let _ = self.tell.send(());
    }
}

struct Watched {
    owner: Arc<Owner>,
    freed: Arc<AtomicUsize>,
    told: mpsc::Receiver<()>,
}

impl Watched {
    fn new() -> Self {
        let freed = Arc::new(AtomicUsize::new(0));
        let (tell, told) = mpsc::channel();
        let owner = Arc::new(Owner {
            values: [5.0; 64],
            freed: Arc::clone(&freed),
            tell,
        });
        Self { owner, freed, told }
    }

    /// The values after the first `skip`.
    #[expect(unsafe_code, reason = "the constructor asks for a promise")]
    fn data(self, skip: usize) -> (HostData, Arc<AtomicUsize>, mpsc::Receiver<()>) {
        let values = &self.owner.values[skip..];
        let (data, len) = (values.as_ptr().cast(), size_of_val(values));
        // SAFETY: the owner goes along, and nobody writes to it.
        let data = unsafe { HostData::new(data, len, Box::new(self.owner)) };
        (data, self.freed, self.told)
    }
}

fn adopts_aligned_memory(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[64]), "")?;
    let watched = Watched::new();
    let address = watched.owner.values.as_ptr().addr();
    let (data, freed, told) = watched.data(0);
    let buffer = Arc::new(client.buffer_from_host_zero_copy(data, &f32s(&[64]), 0)?);
    let lent = buffer.host_bytes()?.map(|bytes| bytes.as_ptr().addr());
    ensure!(lent == Some(address), "it was copied");
    let args = arguments([
        Arg::Keep(Arc::clone(&buffer)),
        filled(&client, 1.0, 64)?.into(),
    ]);
    ensure!(
        get(&run(&program, args)?)? == [6.0; 64],
        "the program saw something else"
    );
    ensure!(freed.load(SeqCst) == 0, "freed while in use");
    drop(buffer);
    told.recv_timeout(Duration::from_secs(20))
        .map_err(|_| "never freed")?;
    ensure!(
        freed.load(SeqCst) == 1,
        "freed {} times",
        freed.load(SeqCst)
    );
    Ok(())
}

fn copies_other_memory(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let (data, freed, _told) = Watched::new().data(1);
    let buffer = client.buffer_from_host_zero_copy(data, &f32s(&[63]), 0)?;
    ensure!(freed.load(SeqCst) == 1, "held without need");
    ensure!(get(&buffer)? == [5.0; 63], "{:?}", get(&buffer)?);
    let vector = HostData::from_owner(crate::program::bytes(&[1.0, 2.0]));
    let buffer = client.buffer_from_host_zero_copy(vector, &f32s(&[2]), 0)?;
    ensure!(get(&buffer)? == [1.0, 2.0], "{:?}", get(&buffer)?);
    let (data, freed, told) = Watched::new().data(0);
    let result = client.buffer_from_host_zero_copy(data, &f32s(&[65]), 0);
    ensure!(result.is_err(), "a wrong length was taken");
    told.recv_timeout(Duration::from_secs(20))
        .map_err(|_| "never freed after an error")?;
    ensure!(
        freed.load(SeqCst) == 1,
        "freed {} times",
        freed.load(SeqCst)
    );
    Ok(())
}

fn leaves_adopted_memory_alone(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[64]), ALIASED)?;
    let watched = Watched::new();
    let owner = Arc::clone(&watched.owner);
    let (data, _freed, _told) = watched.data(0);
    let mut buffer = client.buffer_from_host_zero_copy(data, &f32s(&[64]), 0)?;
    ensure!(!buffer.retire(), "the owner's memory was to be written to");
    let sum = run(
        &program,
        arguments([buffer.into(), filled(&client, 1.0, 64)?.into()]),
    )?;
    ensure!(get(&sum)? == [6.0; 64], "{:?}", &get(&sum)?[..3]);
    ensure!(
        owner.values == [5.0; 64],
        "a donated buffer wrote to its owner's memory"
    );
    Ok(())
}

/// An owner whose destructor panics, in a callback of the plugin.
#[repr(align(64))]
struct Panics([f32; 64]);

impl Drop for Panics {
    fn drop(&mut self) {
        assert!(self.0[0] == 0.0, "on purpose");
    }
}

#[expect(unsafe_code, reason = "the constructor asks for a promise")]
fn contains_panics(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let owner = Box::new(Panics([1.0; 64]));
    // SAFETY: the owner goes along, and nobody writes to it.
    let data = unsafe { HostData::new(owner.0.as_ptr().cast(), 256, owner) };
    drop(client.buffer_from_host_zero_copy(data, &f32s(&[64]), 0)?);
    ensure!(
        get(&put(&client, &[3.0], &[1])?)? == [3.0],
        "unusable after"
    );
    Ok(())
}

fn out_of_memory(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let before = tpu_obs::memory::stats(0);
    let result = client.buffer_from_host(&[], &f32s(&[1 << 60]), 0);
    ensure!(result.is_err(), "4 EiB were allocated");
    ensure!(tpu_obs::memory::stats(0) == before, "a failure was counted");
    Ok(())
}
