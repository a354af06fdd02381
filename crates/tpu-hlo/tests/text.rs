//! The text that the builder prints, and the constraints that it checks.
use expect_test::expect;
use proptest::prelude::*;
use tpu_hlo::{Builder, DType, DotDims, Error, Number, Slot, Type, Value};

fn param(b: &mut Builder, slot: u32, dtype: DType, dims: &[i64]) -> Value {
    b.param(Slot::Buffer(slot), Type::new(dtype, dims))
}

#[test]
fn regions_nest_and_unused_parameters_go() {
    let mut b = Builder::default();
    let x = param(&mut b, 0, DType::F32, &[2, 3]);
    param(&mut b, 1, DType::F32, &[7]);
    let y = b.sum(x, &[1]).expect("sums");
    let module = b.finish(&[y], &[]);
    assert_eq!(module.inputs.len(), 1);
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xf32>) -> (tensor<2xf32>) {
            %2 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %6 = "stablehlo.reduce"(%p0, %2) <{dimensions = array<i64: 1>}> ({
              ^bb0(%3: tensor<f32>, %4: tensor<f32>):
              %5 = "stablehlo.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%5) : (tensor<f32>) -> ()
            }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
            return %6 : tensor<2xf32>
          }
        }
    "#]]
    .assert_eq(&module.text);
}

#[test]
fn an_output_takes_over_the_buffer_of_one_input_of_its_type() {
    let mut b = Builder::default();
    let x = param(&mut b, 0, DType::F32, &[4]);
    let y = b.negate(x);
    let z = b.abs(x);
    let wide = b.convert(x, DType::F64);
    let module = b.finish(&[y, z, wide], &[(0, x), (1, x), (2, x)]);
    assert_eq!(module.aliases, [Some(0), None, None]);
    assert!(
        module
            .text
            .contains("%p0: tensor<4xf32> {tf.aliasing_output = 0 : i32}")
    );
}

#[test]
fn a_product_reads_the_matrix_behind_a_transpose() {
    let mut b = Builder::default();
    let x = param(&mut b, 0, DType::F32, &[1, 3]);
    let w = param(&mut b, 1, DType::F32, &[5, 3]);
    let w = b.transpose(w, &[1, 0]).expect("transposes");
    let contract = ([1].as_slice().into(), [0].as_slice().into());
    let dims = DotDims {
        contract,
        ..DotDims::default()
    };
    let y = b.dot_general(x, w, &dims, DType::F32).expect("multiplies");
    assert_eq!(b.dims(y).as_slice(), [1, 5]);
    let text = b.finish(&[y], &[]).text;
    assert!(
        text.contains("\"stablehlo.dot_general\"(%p0, %p1)"),
        "{text}"
    );
    assert!(text.contains("rhs_contracting_dimensions = [1]"), "{text}");
}

#[test]
fn a_run_time_number_is_converted_by_the_launcher() {
    let mut b = Builder::default();
    let n = b.number(0, DType::F64);
    let m = b.convert(n, DType::BF16);
    assert!(b.is_weak(n) && !b.is_weak(m));
    let module = b.finish(&[m], &[]);
    assert_eq!(module.inputs.len(), 1);
    assert_eq!(module.inputs[0].ty, Type::scalar(DType::BF16));
    assert!(!module.text.contains("convert"));
}

#[test]
fn broken_constraints_are_errors() {
    let mut b = Builder::default();
    let x = param(&mut b, 0, DType::F32, &[2, 3]);
    let y = param(&mut b, 1, DType::I32, &[2, 3]);
    assert!(matches!(b.add(x, y), Err(Error::Mismatch { .. })));
    assert!(matches!(b.reshape(x, &[7]), Err(Error::Shape { .. })));
    assert!(matches!(b.broadcast(x, &[2, 4]), Err(Error::Shape { .. })));
    assert!(matches!(
        b.concatenate(&[x, y], 0),
        Err(Error::Shape { .. })
    ));
    assert!(matches!(b.slice_dim(x, 0, 1, 5), Err(Error::Shape { .. })));
}

#[test]
fn numbers_of_different_kinds_differ_and_nan_is_itself() {
    assert_ne!(Number::Int(1), Number::Float(1.0));
    assert_ne!(Number::Bool(true), Number::Int(1));
    assert_ne!(Number::Float(0.0), Number::Float(-0.0));
    assert_eq!(Number::Float(f64::NAN), Number::Float(f64::NAN));
    assert_eq!(Number::Int(300).bytes(DType::U8).as_slice(), [44]);
    assert_eq!(Number::Int(-1).literal(DType::U8), "255");
    assert_eq!(Number::Float(1e300).literal(DType::F64), "1.0e300");
    assert_eq!(
        Number::Float(f64::INFINITY).literal(DType::F32),
        "0x7F800000"
    );
}

proptest! {
    /// What MLIR reads back from a literal is the number that was meant, to the bit.
    #[test]
    fn finite_literals_are_exact(bits in any::<u64>()) {
        let x = f64::from_bits(bits);
        prop_assume!(x.is_finite());
        let literal = Number::Float(x).literal(DType::F64);
        prop_assert!(literal.contains('.'), "MLIR takes {literal} for an integer");
        prop_assert_eq!(literal.parse::<f64>().map(f64::to_bits), Ok(bits));
    }
}
