//! Graphs from text to StableHLO.
#![allow(clippy::unwrap_used, reason = "a test")]

use expect_test::{Expect, expect};
use tpu_graph::{Artifact, Error, Graph, Program, Signature};
use tpu_hlo::{Builder, DType::F32, Settings, Slot, Type};
use tpu_ops::{Arg, Lower};

/// The program of a graph called with these numbers and one float32 tensor of `[2, 3]`.
fn lowered(json: &str, numbers: &[i64]) -> String {
    let graph = match Graph::parse(json) {
        Ok(graph) => graph,
        Err(e) => return e.to_string(),
    };
    let mut b = Builder::default();
    let x = b.param(Slot::Buffer(0), Type::new(F32, &[2, 3]));
    let args = [Arg::Ints(numbers.into()), Arg::Tensors(vec![Some(x)])];
    match graph.call(&mut b, &args) {
        Ok(outs) => b.finish(&outs, &[]).text,
        Err(e) => e.to_string(),
    }
}

fn check(json: &str, numbers: &[i64], expected: Expect) {
    expected.assert_eq(&lowered(json, numbers));
}

#[test]
fn rows_views_and_lists() {
    check(
        r#"{"nodes": [
            {"op": "tensor", "args": [0]},
            {"op": "transpose.int", "args": [{"node": 0}, 0, 1]},
            {"op": "split.Tensor", "args": [{"node": 1}, 1, 0]},
            {"op": "getitem", "args": [{"node": 2}, 2]},
            {"op": "add.Tensor", "args": [{"node": 3}, 2.5, 1]}
        ], "outputs": [{"node": 4}, null], "written": [1]}"#,
        &[],
        expect![[r#"
            module {
              func.func public @main(%p0: tensor<2x3xf32>) -> (tensor<1x2xf32>, tensor<0xi1>, tensor<3x2xf32>) {
                %1 = "stablehlo.transpose"(%p0) <{permutation = array<i64: 1, 0>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
                %2 = "stablehlo.slice"(%1) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 2>, strides = array<i64: 1, 1>}> : (tensor<3x2xf32>) -> tensor<1x2xf32>
                %3 = "stablehlo.slice"(%1) <{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 2, 2>, strides = array<i64: 1, 1>}> : (tensor<3x2xf32>) -> tensor<1x2xf32>
                %4 = "stablehlo.slice"(%1) <{start_indices = array<i64: 2, 0>, limit_indices = array<i64: 3, 2>, strides = array<i64: 1, 1>}> : (tensor<3x2xf32>) -> tensor<1x2xf32>
                %5 = "stablehlo.constant"() <{value = dense<2.5> : tensor<f64>}> : () -> tensor<f64>
                %6 = "stablehlo.convert"(%5) : (tensor<f64>) -> tensor<f32>
                %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x2xf32>
                %8 = "stablehlo.add"(%4, %7) : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
                %9 = "stablehlo.constant"() <{value = dense<false> : tensor<0xi1>}> : () -> tensor<0xi1>
                return %8, %9, %1 : tensor<1x2xf32>, tensor<0xi1>, tensor<3x2xf32>
              }
            }
        "#]],
    );
}

#[test]
fn sizes_are_computed_at_lowering() {
    check(
        r#"{"nodes": [
            {"op": "tensor", "args": [0]},
            {"op": "number", "args": [0]},
            {"op": "sym_size.int", "args": [{"node": 0}, 1]},
            {"op": "python.mul", "args": [{"node": 1}, {"node": 2}]},
            {"op": "python.floordiv", "args": [{"node": 3}, -2]},
            {"op": "python.neg", "args": [{"node": 4}]},
            {"op": "view", "args": [{"node": 0}, [{"node": 5}, -1]]},
            {"op": "arange.start_out", "args": [0, {"node": 3}, 1], "dtype": "int32"}
        ], "outputs": [{"node": 6, "order": [1, 0]}, {"node": 7}], "written": []}"#,
        &[1],
        expect![[r#"
            module {
              func.func public @main(%p0: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xi32>) {
                %1 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
                %2 = "stablehlo.constant"() <{value = dense<3> : tensor<i64>}> : () -> tensor<i64>
                %3 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
                %4 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<3xi32>
                %5 = "stablehlo.convert"(%1) : (tensor<i64>) -> tensor<i32>
                %6 = "stablehlo.convert"(%3) : (tensor<i64>) -> tensor<i32>
                %7 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<3xi32>
                %8 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<3xi32>
                %9 = "stablehlo.multiply"(%4, %8) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
                %10 = "stablehlo.add"(%7, %9) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
                return %p0, %10 : tensor<2x3xf32>, tensor<3xi32>
              }
            }
        "#]],
    );
}

#[test]
fn what_is_no_graph_is_refused() {
    let lines = [
        lowered("{", &[]),
        lowered(
            r#"{"nodes": [{"op": "no_such_op", "args": []}], "outputs": [], "written": []}"#,
            &[],
        ),
        lowered(
            r#"{"nodes": [{"op": "number", "args": [3]}], "outputs": [], "written": []}"#,
            &[1],
        ),
        lowered(
            r#"{"nodes": [{"op": "tensor", "args": [0]}, {"op": "nonzero", "args": [{"node": 0}]}],
                "outputs": [], "written": []}"#,
            &[],
        ),
        lowered(
            r#"{"nodes": [{"op": "python.floordiv", "args": [1, 0]}], "outputs": [], "written": []}"#,
            &[],
        ),
    ];
    expect![[r#"
        TPU4001: not a graph: EOF while parsing an object at line 1 column 1
        TPU4002: no_such_op cannot be part of a graph: no row serves it; hint: it runs eagerly between graphs
        TPU4001: not a graph: a number that is not given
        TPU4002: nonzero cannot be part of a graph: the size of its result depends on data
        TPU4001: not a graph: `python.floordiv` overflows"#]].assert_eq(&lines.join("\n"));
}

const PLACED: &str = r#"{"nodes": [
    {"op": "tensor", "args": [0]},
    {"op": "tensor", "args": [1]},
    {"op": "mul.Tensor", "args": [{"node": 0}, {"node": 1}],
     "at": {"name": "layers.0/mul", "file": "model.py", "line": 7}}
], "outputs": [null, {"node": 2, "order": [1, 0]}], "written": [2]}"#;
const SIGNATURE: &str = r#"{"numbers": [], "written": [0], "names": ["weight", "a \"b\""], "tensors": [
    {"dtype": "float32", "sizes": [2, 3]}, {"dtype": "float32", "sizes": [2, 3]}]}"#;

fn program() -> Program {
    let graph = Graph::parse(PLACED).unwrap();
    let signature: Signature = serde_json::from_str(SIGNATURE).unwrap();
    graph.program(&signature, Settings::default()).unwrap()
}

#[test]
fn a_program_says_where_it_comes_from() {
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xf32> {tf.aliasing_output = 1 : i32} loc("weight"), %p1: tensor<2x3xf32> loc("a \"b\"")) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
            %2 = "stablehlo.multiply"(%p0, %p1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("layers.0/mul"("model.py":7:0))
            %3 = "stablehlo.constant"() <{value = dense<false> : tensor<0xi1>}> : () -> tensor<0xi1> loc("layers.0/mul"("model.py":7:0))
            return %2, %2 : tensor<2x3xf32>, tensor<2x3xf32>
          }
        }
    "#]]
    .assert_eq(&program().text);
}

#[test]
fn a_program_that_was_written_down_is_called() {
    let program = program();
    let description = serde_json::to_string(&program).unwrap();
    let read = Artifact::parse(&description, &program.text).unwrap();
    assert_eq!(read.fresh(), 2);
    let mut b = Builder::default();
    let ty = Type::new(F32, &[2, 3]);
    let tensors = [0, 1].map(|i| Some(b.param(Slot::Buffer(i), ty.clone())));
    let args = [Arg::Ints(vec![].into()), Arg::Tensors(tensors.into())];
    let outs = read.call(&mut b, &args).unwrap();
    assert!(b.is_undefined(outs[0]));
    assert_eq!(b.order(outs[1]), Some(&[1, 0][..]));
    let text = b.finish(&outs[1..], &[]).text;
    assert!(text.contains(r#"%2:2 = "func.call"(%p0, %p1) <{callee = @exported}>"#));
    assert!(text.contains("func.func private @exported(%p0: tensor<2x3xf32> loc"));
    assert!(!text.contains("aliasing_output"));
    let error = Artifact::parse(&description, "module {\n}\n").unwrap_err();
    assert!(error.to_string().starts_with("TPU4010"));
}

#[test]
fn an_error_names_its_node() {
    let json = r#"{"nodes": [
        {"op": "tensor", "args": [0]},
        {"op": "mm", "args": [{"node": 0}, {"node": 0}]}
    ], "outputs": [{"node": 1}], "written": []}"#;
    let signature: Signature = serde_json::from_str(SIGNATURE).unwrap();
    let graph = Graph::parse(json).unwrap();
    let error = graph.program(&signature, Settings::default()).unwrap_err();
    assert!(matches!(error, Error::Refused { node: Some(1), .. }));
}

#[test]
fn a_branch_reads_what_it_is_given() {
    check(
        r#"{"nodes": [
            {"op": "tensor", "args": [0]},
            {"op": "sum", "args": [{"node": 0}, null]},
            {"op": "cond", "args": [{"node": 1}, [{"node": 0}]], "graphs": [
                {"nodes": [{"op": "tensor", "args": [0]}, {"op": "sin", "args": [{"node": 0}]}],
                 "outputs": [{"node": 1}], "written": []},
                {"nodes": [{"op": "tensor", "args": [0]}],
                 "outputs": [{"node": 0}], "written": []}
            ]},
            {"op": "getitem", "args": [{"node": 2}, 0]}
        ], "outputs": [{"node": 3}], "written": []}"#,
        &[],
        expect![[r#"
            module {
              func.func public @main(%p0: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
                %1 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
                %5 = "stablehlo.reduce"(%p0, %1) <{dimensions = array<i64: 0, 1>}> ({
                  ^bb0(%2: tensor<f32>, %3: tensor<f32>):
                  %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
                  "stablehlo.return"(%4) : (tensor<f32>) -> ()
                }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
                %6 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
                %7 = "stablehlo.compare"(%5, %6) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %11:2 = "stablehlo.if"(%7) ({
                  ^bb0:
                  %8 = "stablehlo.sine"(%p0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
                  %9 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
                  "stablehlo.return"(%8, %9) : (tensor<2x3xf32>, tensor<i64>) -> ()
                }, {
                  ^bb0:
                  %10 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
                  "stablehlo.return"(%p0, %10) : (tensor<2x3xf32>, tensor<i64>) -> ()
                }) : (tensor<i1>) -> (tensor<2x3xf32>, tensor<i64>)
                return %11#0 : tensor<2x3xf32>
              }
            }
        "#]],
    );
}

#[test]
fn a_loop_stacks_what_each_turn_gives() {
    check(
        r#"{"nodes": [
            {"op": "tensor", "args": [0]},
            {"op": "scan", "args": [[], [{"node": 0}], []], "graphs": [
                {"nodes": [{"op": "tensor", "args": [0]}, {"op": "sin", "args": [{"node": 0}]}],
                 "outputs": [{"node": 1}], "written": []}
            ]},
            {"op": "getitem", "args": [{"node": 1}, 0]}
        ], "outputs": [{"node": 2}], "written": []}"#,
        &[],
        expect![[r#"
            module {
              func.func public @main(%p0: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
                %7 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
                %8 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
                %9 = "stablehlo.constant"() <{value = dense<0.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
                %31:3 = "stablehlo.while"(%7, %8, %9) ({
                  ^bb0(%10: tensor<i64>, %11: tensor<i64>, %12: tensor<2x3xf32>):
                  %13 = "stablehlo.constant"() <{value = dense<2> : tensor<i64>}> : () -> tensor<i64>
                  %14 = "stablehlo.compare"(%10, %13) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
                  "stablehlo.return"(%14) : (tensor<i1>) -> ()
                }, {
                  ^bb0(%15: tensor<i64>, %16: tensor<i64>, %17: tensor<2x3xf32>):
                  %18 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
                  %19 = "stablehlo.dynamic_slice"(%p0, %15, %18) <{slice_sizes = array<i64: 1, 3>}> : (tensor<2x3xf32>, tensor<i64>, tensor<i64>) -> tensor<1x3xf32>
                  %20 = "stablehlo.reshape"(%19) : (tensor<1x3xf32>) -> tensor<3xf32>
                  %21 = "stablehlo.sine"(%20) : (tensor<3xf32>) -> tensor<3xf32>
                  %22 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
                  %23 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
                  %24 = "stablehlo.compare"(%16, %23) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
                  %25 = "stablehlo.select"(%24, %22, %16) : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
                  %26 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
                  %27 = "stablehlo.add"(%15, %26) : (tensor<i64>, tensor<i64>) -> tensor<i64>
                  %28 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
                  %29 = "stablehlo.reshape"(%21) : (tensor<3xf32>) -> tensor<1x3xf32>
                  %30 = "stablehlo.dynamic_update_slice"(%17, %29, %15, %28) : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
                  "stablehlo.return"(%27, %25, %30) : (tensor<i64>, tensor<i64>, tensor<2x3xf32>) -> ()
                }) : (tensor<i64>, tensor<i64>, tensor<2x3xf32>) -> (tensor<i64>, tensor<i64>, tensor<2x3xf32>)
                return %31#2 : tensor<2x3xf32>
              }
            }
        "#]],
    );
}

#[test]
fn a_loop_that_draws_or_lacks_a_body_is_refused() {
    let draws = r#"{"nodes": [
        {"op": "tensor", "args": [0]},
        {"op": "map", "args": [[{"node": 0}], []], "graphs": [
            {"nodes": [{"op": "tensor", "args": [0]},
                       {"op": "uniform", "args": [{"node": 0}, 0.0, 1.0, null]}],
             "outputs": [{"node": 1}], "written": []}
        ]}
    ], "outputs": [], "written": []}"#;
    let refused = "TPU4002: random numbers cannot be drawn inside a loop of a graph";
    assert!(lowered(draws, &[]).contains(refused));
    check(
        r#"{"nodes": [{"op": "tensor", "args": [0]},
            {"op": "cond", "args": [{"node": 0}, []]}], "outputs": [], "written": []}"#,
        &[],
        expect!["TPU4001: not a graph: `cond` without its graphs"],
    );
}
