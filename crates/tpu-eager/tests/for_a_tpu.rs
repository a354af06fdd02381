//! What is lowered otherwise for a TPU, run on the CPU plugin as far as that knows it.
mod plugin;

use plugin::CLIENT;
use tpu_hlo::{Builder, DType, Module, Number, Settings, Slot, Type};
use tpu_ops::Arg;
use tpu_pjrt::{CompileOptions, ElementType, Shape, Signature};

/// A tensor: its dtype, sizes and bytes.
#[derive(Clone)]
struct Tensor(DType, Vec<i64>, Vec<u8>);

fn f64s(dims: &[i64], data: &[f64]) -> Tensor {
    let bytes = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor(DType::F64, dims.to_vec(), bytes)
}

fn f32s(dims: &[i64], data: &[f64]) -> Tensor {
    let bytes = data
        .iter()
        .flat_map(|x| (*x as f32).to_le_bytes())
        .collect();
    Tensor(DType::F32, dims.to_vec(), bytes)
}

fn i64s(dims: &[i64], data: &[i64]) -> Tensor {
    let bytes = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor(DType::I64, dims.to_vec(), bytes)
}

fn i32s(dims: &[i64], data: &[i32]) -> Tensor {
    let bytes = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor(DType::I32, dims.to_vec(), bytes)
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    let words = bytes.chunks_exact(8);
    words
        .map(|word| f64::from_le_bytes(word.try_into().expect("a whole word")))
        .collect()
}

fn singles(bytes: &[u8]) -> Vec<f64> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| f64::from(f32::from_le_bytes(word.try_into().expect("a whole word"))))
        .collect()
}

/// The results of a row, lowered as for a TPU.
fn run(name: &str, tensors: &[Tensor], rest: &[Arg]) -> Vec<Vec<u8>> {
    let settings = Settings::default();
    let mut b = Builder::new(Settings {
        tpu: true,
        ..settings
    });
    let mut args: Vec<Arg> = (0..)
        .zip(tensors)
        .map(|(i, Tensor(dtype, dims, _))| {
            Arg::Tensor(b.param(Slot::Buffer(i), Type::new(*dtype, dims)))
        })
        .collect();
    args.extend_from_slice(rest);
    let row = tpu_ops::get(name).expect("a row");
    let outs = row.lower(&mut b, &args).expect("lowers");
    execute(&b.finish(&outs, &[]), tensors)
}

fn execute(module: &Module, tensors: &[Tensor]) -> Vec<Vec<u8>> {
    let shape = |ty: &Type| {
        let element = match ty.dtype {
            DType::F32 => ElementType::F32,
            DType::F64 => ElementType::F64,
            DType::I64 => ElementType::S64,
            DType::I32 => ElementType::S32,
            other => panic!("{other:?}"),
        };
        Shape::new(element, &ty.dims)
    };
    let signature = Signature {
        inputs: module.inputs.iter().map(|input| shape(&input.ty)).collect(),
        outputs: module.outputs.iter().map(shape).collect(),
    };
    let options = CompileOptions::default();
    let program = CLIENT.compile(&module.text, &signature, &options);
    let program = program.unwrap_or_else(|e| panic!("{e}\n{}", module.text));
    let buffers = module.inputs.iter().map(|input| {
        let Slot::Buffer(i) = input.slot else {
            panic!("a number");
        };
        let Tensor(_, _, bytes) = &tensors[i as usize];
        let buffer = CLIENT.buffer_from_host(bytes, &shape(&input.ty), 0);
        buffer.expect("a buffer").into()
    });
    let outs = program.execute(&mut buffers.collect(), 0).expect("runs");
    let sizes = signature.outputs.iter().map(Shape::size_bytes);
    let read = |(out, size): (&std::sync::Arc<tpu_pjrt::Buffer>, usize)| {
        let mut bytes = vec![0; size];
        out.to_host(&mut bytes).expect("reads");
        bytes
    };
    outs.iter().zip(sizes).map(read).collect()
}

/// The product of row-major matrices.
fn product(x: &[f64], y: &[f64], inner: usize, columns: usize) -> Vec<f64> {
    let rows = x.chunks_exact(inner);
    let entry = |row: &[f64], j| (0..inner).map(|k| row[k] * y[k * columns + j]).sum();
    rows.flat_map(|row| (0..columns).map(move |j| entry(row, j)))
        .collect()
}

fn transposed(x: &[f64], columns: usize) -> Vec<f64> {
    let rows = x.len() / columns;
    let column = |j| (0..rows).map(move |i| x[i * columns + j]);
    (0..columns).flat_map(column).collect()
}

#[track_caller]
fn assert_within(limit: f64, x: &[f64], y: &[f64]) {
    assert_eq!(x.len(), y.len());
    for (a, b) in x.iter().zip(y) {
        assert!((a - b).abs() < limit, "{x:?} is not {y:?}");
    }
}

#[track_caller]
fn assert_near(x: &[f64], y: &[f64]) {
    assert_within(1e-10, x, y);
}

const TALL: [f64; 12] = [4., 1., -2., 3., 0., 5., -1., 2., 2., 7., -3., 1.];
const YES: Arg = Arg::Number(Number::Bool(true));
const NO: Arg = Arg::Number(Number::Bool(false));

#[test]
fn factors_of_qr_multiply_to_the_matrix() {
    for (dims, mode, columns) in [
        ([4, 3], "reduced", 3),
        ([4, 3], "complete", 4),
        ([3, 4], "reduced", 3),
    ] {
        let outs = run("linalg_qr", &[f64s(&dims, &TALL)], &[Arg::Str(mode.into())]);
        let (q, r) = (numbers(&outs[0]), numbers(&outs[1]));
        assert_near(&product(&q, &r, columns, dims[1] as usize), &TALL);
        let gram = product(&transposed(&q, columns), &q, dims[0] as usize, columns);
        let identity = |i: usize| f64::from(u8::from(i.is_multiple_of(columns + 1)));
        let identity: Vec<f64> = (0..columns * columns).map(identity).collect();
        assert_near(&gram, &identity);
    }
}

#[test]
fn eigenvectors_are_scaled_by_eigenvalues() {
    let symmetric = [2., -1., 0.5, -1., 3., 1., 0.5, 1., -4.];
    let upper = [2., -1., 0.5, 9., 3., 1., 9., 9., -4.];
    let lower = transposed(&upper, 3);
    for (given, side) in [(&upper[..], "U"), (&lower, "L")] {
        let rest = [Arg::Str(side.into()), YES];
        let outs = run("_linalg_eigh", &[f32s(&[3, 3], given)], &rest);
        let (values, vectors) = (singles(&outs[0]), singles(&outs[1]));
        assert!(values.is_sorted(), "{values:?}");
        let scaled: Vec<f64> = (0..9).map(|i| vectors[i] * values[i % 3]).collect();
        assert_within(1e-5, &product(&symmetric, &vectors, 3, 3), &scaled);
    }
}

/// `P @ L @ U` of the packed factors below, whose rows 1 and 3, then 2 and 3 were exchanged.
const LU: [f64; 9] = [4., 2., 1., 0.5, 3., -1., 0.25, -0.5, 2.];
const PIVOTS: [i32; 3] = [3, 3, 3];

fn matrix() -> Vec<f64> {
    let l = [1., 0., 0., 0.5, 1., 0., 0.25, -0.5, 1.];
    let u = [4., 2., 1., 0., 3., -1., 0., 0., 2.];
    let rows = product(&l, &u, 3, 3);
    // The exchanges, undone last to first: 2 and 3, then 1 and 3.
    [1, 2, 0]
        .iter()
        .flat_map(|i: &usize| rows[3 * i..3 * i + 3].to_vec())
        .collect()
}

#[test]
fn packed_factors_unpack_to_the_matrix() {
    let given = [f64s(&[3, 3], &LU), i32s(&[3], &PIVOTS)];
    let outs = run("lu_unpack", &given, &[YES, YES]);
    let [p, l, u] = [0, 1, 2].map(|i| numbers(&outs[i]));
    assert_near(&product(&p, &product(&l, &u, 3, 3), 3, 3), &matrix());
}

#[test]
fn packed_factors_solve_from_both_sides() {
    let (x, given) = ([1., -2., 3.], [f64s(&[3, 3], &LU), i32s(&[3], &PIVOTS)]);
    for (adjoint, a) in [(NO, matrix()), (YES, transposed(&matrix(), 3))] {
        let right = f64s(&[3, 1], &product(&a, &x, 3, 1));
        let given = [given.to_vec(), vec![right]].concat();
        let outs = run("linalg_lu_solve", &given, &[YES, adjoint]);
        assert_near(&numbers(&outs[0]), &x);
    }
}

#[test]
fn products_of_wide_integers_are_exact() {
    let big = 1 << 40;
    let (x, y) = ([big, 2, -3, 5, 7, big], [1, 2, 3, big, -5, 6]);
    let outs = run("mm", &[i64s(&[2, 3], &x), i64s(&[3, 2], &y)], &[]);
    let entry = |i: usize, j: usize| -> i64 {
        (0..3).fold(0, |sum: i64, k| {
            sum.wrapping_add(x[3 * i + k].wrapping_mul(y[2 * k + j]))
        })
    };
    let expected = i64s(
        &[2, 2],
        &[entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)],
    );
    assert_eq!(outs[0], expected.2);
}
