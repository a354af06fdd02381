//! What holds for every size is asked of many.
use super::*;
use crate::{Settings, Size, Symbols};
use proptest::prelude::*;

const CAPACITY: i64 = 16;

fn linear(constant: i64, terms: &[(u32, i64)]) -> Linear {
    Linear {
        constant,
        terms: terms.into(),
    }
}

/// A builder with the sizes `s` and `s + 1`, and the number of `s`.
fn builder(round: usize) -> (Builder, i64) {
    let atoms = [linear(0, &[(0, 1)]), linear(1, &[(0, 1)])];
    let point = generic_point(1, &atoms, &[2, 3, 4, CAPACITY], round);
    let n = point[0];
    let mut b = Builder::new(Settings::default());
    b.set_sizes(atoms.into_iter().map(|a| (a, CAPACITY)), point);
    (b, n)
}

fn input(b: &mut Builder, dims: &[i64]) -> Value {
    b.param(Slot::Buffer(0), Type::new(DType::F32, dims))
}

/// The text that `f` gives of a tensor `[2, s, 3]`, at two generic points.
fn texts(f: impl Fn(&mut Builder, Value, i64) -> Result<Value>) -> [String; 2] {
    [0, 1].map(|round| {
        let (mut b, n) = builder(round);
        let x = input(&mut b, &[2, n, 3]);
        let y = f(&mut b, x, n).expect("an exact op");
        b.finish(&[y], &[]).text
    })
}

#[test]
fn reductions_choose_their_own_start_behind_the_size() {
    let [one, other] = texts(|b, x, _| b.sum(x, &[1]));
    assert_eq!(one, other);
    assert!(one.contains("tensor<2x16x3xf32>") && one.contains("stablehlo.select"));
    // Other dimensions need no mask.
    let [plain, _] = texts(|b, x, _| b.sum(x, &[2]));
    assert!(!plain.contains("stablehlo.select"));
}

#[test]
fn both_sides_of_a_contraction_are_masked() {
    let [one, other] = texts(|b, x, _| {
        let dims = crate::DotDims {
            batch: ([0].as_slice().into(), [0].as_slice().into()),
            contract: ([1].as_slice().into(), [1].as_slice().into()),
        };
        b.dot_general(x, x, &dims, DType::F32)
    });
    assert_eq!(one, other);
    assert_eq!(one.matches("stablehlo.select").count(), 2);
}

#[test]
fn a_size_that_becomes_a_constant_is_found_out() {
    let [one, other] = texts(|b, x, n| {
        let n = b.full_like(x, n as f64);
        b.divide(x, n)
    });
    assert_ne!(one, other);
    let [one, other] = texts(|b, x, n| {
        let n = b.size_like(x, n)?;
        b.divide(x, n)
    });
    assert_eq!(one, other);
}

#[test]
fn elements_behind_the_size_do_not_move_between_dimensions() {
    let (mut b, n) = builder(0);
    let x = input(&mut b, &[2, n, 3]);
    let flat = b.reshape(x, &[2 * n, 3]).expect("merges");
    assert_eq!(b.capacities(&b.dims(flat)).as_slice(), [2 * CAPACITY, 3]);
    let back = b.reshape(flat, &[2, n, 3]).expect("splits again");
    assert_eq!(b.dims(back), b.dims(x));
    assert!(b.reshape(x, &[n, 6]).is_err());
    // The other order of the same factors is another dimension.
    let turned = b.transpose(x, &[1, 0, 2]).expect("a permutation");
    let turned = b.reshape(turned, &[2 * n, 3]).expect("merges");
    assert_ne!(b.dims(turned), b.dims(flat));
    assert!(b.add(turned, flat).is_err());
    assert!(b.is_size(
        b.dims(turned)[0],
        &Size {
            factor: 2,
            atoms: [linear(0, &[(0, 1)])].as_slice().into()
        }
    ));
}

#[test]
fn growing_is_a_write_where_the_first_ends() {
    let [one, other] = texts(|b, x, _| {
        let last = b.full(1, DType::F32, &[2, 1, 3]);
        b.concatenate(&[x, last], 1)
    });
    assert_eq!(one, other);
    assert!(one.contains("dynamic_update_slice") && one.contains("-> (tensor<2x16x3xf32>)"));
}

#[test]
fn positions_in_merged_dimensions_are_refused() {
    let (mut b, n) = builder(0);
    assert!(b.is_in_order(n) && b.is_in_order(7) && !b.is_in_order(2 * n));
    b.iota(DType::I32, &[n], 0);
    assert_eq!(b.take_fault(), None);
    b.iota(DType::I32, &[2 * n], 0);
    assert!(b.take_fault().is_some());
}

#[test]
fn what_has_no_rule_is_refused() {
    let (mut b, n) = builder(0);
    let x = input(&mut b, &[n]);
    b.fft(x, "FFT", &[n], Type::new(DType::C64, &[n]));
    assert!(b.take_fault().is_some_and(|why| why.contains("fft")));
    b.reverse(x, &[0]);
    assert!(b.take_fault().is_some_and(|why| why.contains("reverse")));
    b.negate(x);
    assert_eq!(b.take_fault(), None);
}

proptest! {
    /// Symbols come back from the sizes that they make.
    #[test]
    fn sizes_tell_their_symbols(s in 1_i64..2000, t in 1_i64..2000, c in 0_i64..5, k in 1_i64..9) {
        let size = |factor, atoms: &[Linear]| Size { factor, atoms: atoms.into() };
        let sizes = [
            size(1, &[linear(c, &[(0, 1)])]),
            size(k, &[linear(0, &[(0, 1)]), linear(c, &[(1, 1)])]),
        ];
        let symbols = Symbols { count: 2, ..Symbols::default() };
        let given = [(&sizes[0], s + c), (&sizes[1], k * s * (t + c))];
        prop_assert_eq!(symbols.solve(&given), Some(vec![s, t]));
        prop_assert_eq!(symbols.solve(&[given[0], (&sizes[1], k * s * (t + c) + 1)]), None);
        prop_assert_eq!(symbols.solve(&given[..1]), None);
    }

    /// A product of sizes and a number is taken apart again, whatever the number.
    #[test]
    fn dimensions_tell_their_factors(k in 1_i64..4096, squared: bool, round in 0_usize..2) {
        let (b, n) = {
            let atoms = [linear(0, &[(0, 1)]), linear(1, &[(0, 1)])];
            let point = generic_point(1, &atoms, &[k], round);
            let n = point[0];
            let mut b = Builder::new(Settings::default());
            b.set_sizes(atoms.into_iter().map(|a| (a, CAPACITY)), point);
            (b, n)
        };
        let product = k * n * if squared { n + 1 } else { 1 };
        let mut want: Vec<Factor> = vec![Factor::Atom(0)];
        want.extend(squared.then_some(Factor::Atom(1)));
        if k > 1 {
            want.insert(0, Factor::Known(k));
        }
        prop_assert_eq!(b.factors(product).map(|f| f.to_vec()), Some(want));
        prop_assert_eq!(b.factors(k).map(|f| f.to_vec()), Some(vec![Factor::Known(k)]));
    }
}
