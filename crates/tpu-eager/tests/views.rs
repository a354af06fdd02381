//! Views against an index computation: what a program reads and writes through any geometry.
mod plugin;

use plugin::CLIENT;
use proptest::prelude::*;
use std::sync::Arc;
use tpu_eager::view::{View, reinterpret};
use tpu_hlo::{Builder, DType, Module, Slot, Type};
use tpu_pjrt::{Arg, Buffer, CompileOptions, ElementType, Shape, Signature};

#[derive(Clone, Debug)]
struct Geometry {
    storage: Vec<i64>,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    offset: i64,
}

/// A tensor of a contiguous storage, after one step that makes a view of it.
fn step(g: Geometry, kind: u8, a: usize, b: usize) -> Geometry {
    let mut g = g;
    let rank = g.sizes.len();
    if rank == 0 {
        g.sizes.push(1 + (a % 3) as i64);
        g.strides.push(0);
        return g;
    }
    let (d, e) = (a % rank, b % rank);
    match kind {
        0 => {
            g.sizes.swap(d, e);
            g.strides.swap(d, e);
        }
        1 => {
            let start = b as i64 % g.sizes[d];
            g.offset += start * g.strides[d];
            g.sizes[d] -= start;
        }
        2 => g.sizes[d] = (g.sizes[d] + 1) / 2,
        3 => {
            let by = 1 + b as i64 % 3;
            g.sizes[d] = (g.sizes[d] + by - 1) / by;
            g.strides[d] *= by;
        }
        4 => {
            let at = b as i64 % g.sizes[d];
            g.offset += at * g.strides[d];
            g.sizes.remove(d);
            g.strides.remove(d);
        }
        5 if g.sizes[d] == 1 => {
            g.sizes[d] = 2;
            g.strides[d] = 0;
        }
        // A window that overlaps itself, as `unfold` makes.
        6 if g.sizes[d] >= 3 => {
            g.sizes[d] -= 1;
            g.sizes.push(2);
            g.strides.push(g.strides[d]);
        }
        _ => {
            g.sizes.insert(d, 1);
            g.strides.insert(d, 1 + b as i64 % 5);
        }
    }
    g
}

fn geometry() -> impl Strategy<Value = Geometry> {
    let storage = prop::collection::vec(1i64..6, 1..4);
    let steps = prop::collection::vec((0u8..8, 0usize..4, 0usize..6), 0..5);
    (storage, steps).prop_map(|(storage, steps)| {
        let strides = (0..storage.len())
            .map(|d| storage[d + 1..].iter().product())
            .collect();
        let start = Geometry {
            sizes: storage.clone(),
            storage,
            strides,
            offset: 0,
        };
        steps
            .into_iter()
            .fold(start, |g, (kind, a, b)| step(g, kind, a, b))
    })
}

/// Storage position of each element in row-major order.
fn positions(g: &Geometry) -> Vec<usize> {
    let mut all = vec![g.offset];
    for (size, stride) in g.sizes.iter().zip(&g.strides) {
        all = all
            .iter()
            .flat_map(|at| (0..*size).map(move |i| at + i * stride))
            .collect();
    }
    all.into_iter().map(|at| at as usize).collect()
}

fn numel(dims: &[i64]) -> i64 {
    dims.iter().product()
}

fn upload(values: &[i32], dims: &[i64]) -> Arg {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = Shape::new(ElementType::S32, dims);
    Arg::Keep(Arc::new(
        CLIENT.buffer_from_host(&bytes, &shape, 0).expect("uploads"),
    ))
}

fn run(module: &Module, bind: impl Fn(Slot) -> Arg) -> Vec<i32> {
    let shape = |ty: &Type| Shape::new(tpu_eager::element_type(ty.dtype), &ty.dims);
    let signature = Signature {
        inputs: module.inputs.iter().map(|i| shape(&i.ty)).collect(),
        outputs: module.outputs.iter().map(shape).collect(),
    };
    let program = CLIENT.compile(&module.text, &signature, &CompileOptions::default());
    let program = program.unwrap_or_else(|e| panic!("{e}\n{}", module.text));
    let mut args = module.inputs.iter().map(|i| bind(i.slot)).collect();
    let outputs = program.execute(&mut args, 0).expect("runs");
    read(&outputs[0])
}

fn read(buffer: &Buffer) -> Vec<i32> {
    let mut bytes = vec![0; buffer.size_bytes()];
    buffer.to_host(&mut bytes).expect("downloads");
    let words = bytes.chunks_exact(4);
    words
        .map(|w| i32::from_le_bytes(w.try_into().expect("four bytes")))
        .collect()
}

fn storage(b: &mut Builder, g: &Geometry) -> tpu_hlo::Value {
    b.param(Slot::Buffer(0), Type::new(DType::I32, &g.storage))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn reads_are_those_of_the_index_computation(g in geometry()) {
        let values: Vec<i32> = (0..numel(&g.storage) as i32).map(|i| 100 + i).collect();
        let view = View::new(numel(&g.storage), &g.sizes, &g.strides, g.offset);
        let mut b = Builder::default();
        let base = storage(&mut b, &g);
        let x = view.read(&mut b, base, 0).expect("reads");
        prop_assert_eq!(b.dims(x).to_vec(), g.sizes.clone());
        let got = run(&b.finish(&[x], &[]), |slot| match slot {
            Slot::Buffer(_) => upload(&values, &g.storage),
            Slot::Number(_) | Slot::Spare(_) | Slot::Size(_) => upload(&[g.offset as i32], &[]),
        });
        let want: Vec<i32> = positions(&g).into_iter().map(|at| values[at]).collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn writes_change_the_view_and_nothing_else(g in geometry()) {
        let at = positions(&g);
        let mut seen = at.clone();
        seen.sort_unstable();
        seen.dedup();
        prop_assume!(seen.len() == at.len());
        let mut values: Vec<i32> = (0..numel(&g.storage) as i32).map(|i| 100 + i).collect();
        let new: Vec<i32> = (0..at.len() as i32).map(|i| -i - 1).collect();
        let view = View::new(numel(&g.storage), &g.sizes, &g.strides, g.offset);
        let mut b = Builder::default();
        let value = b.param(Slot::Buffer(1), Type::new(DType::I32, &g.sizes));
        let x = view.write(&mut b, |b| storage(b, &g), value, 0).expect("writes");
        let got = run(&b.finish(&[x], &[]), |slot| match slot {
            Slot::Buffer(0) => upload(&values, &g.storage),
            Slot::Buffer(_) => upload(&new, &g.sizes),
            Slot::Number(_) | Slot::Spare(_) | Slot::Size(_) => upload(&[g.offset as i32], &[]),
        });
        for (at, v) in at.iter().zip(&new) {
            values[*at] = *v;
        }
        prop_assert_eq!(got, values);
    }
}

/// Bytes survive a change of type there and back, for every pair of types.
#[test]
fn reinterpreting_there_and_back_keeps_the_bytes() {
    for dtype in DType::ALL {
        // A boolean keeps no more than whether a byte is zero.
        if dtype == DType::Bool {
            continue;
        }
        let mut b = Builder::default();
        let x = b.param(Slot::Buffer(0), Type::new(DType::I32, &[8]));
        let y = reinterpret(&mut b, x, dtype).expect("there");
        let z = reinterpret(&mut b, y, DType::I32).expect("back");
        let values: Vec<i32> = (1..9).map(|i| i * 0x0102_0304).collect();
        let got = run(&b.finish(&[z], &[]), |_| upload(&values, &[8]));
        assert_eq!(got, values, "{dtype:?}");
    }
}
