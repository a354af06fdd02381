use crate::golden::{Given::T, NONE, flag, int, line};
use expect_test::expect;
use tpu_hlo::DType::*;

#[test]
fn rows() {
    let lines = [
        line("_unique", &[T(F32, &[5]), flag(true), flag(true), int(3)]),
        line(
            "_unique2",
            &[T(I64, &[2, 5]), flag(true), flag(true), flag(true), int(3)],
        ),
        line(
            "_unique2",
            &[T(I64, &[0]), flag(true), flag(true), flag(true), int(0)],
        ),
        line(
            "_unique2",
            &[T(C64, &[2]), flag(true), flag(true), flag(true), int(1)],
        ),
        line("bincount", &[T(I64, &[5]), NONE, int(0), int(7)]),
        line("bincount", &[T(I64, &[5]), T(F16, &[5]), int(0), int(7)]),
        line("bincount", &[T(F32, &[5]), NONE, int(0), int(7)]),
        line(
            "unique_consecutive",
            &[T(F32, &[5]), flag(true), flag(true), NONE, int(3)],
        ),
        line(
            "unique_consecutive",
            &[T(F32, &[5, 2]), flag(false), flag(true), int(1), int(2)],
        ),
        line(
            "unique_dim",
            &[
                T(F32, &[5, 2]),
                int(0),
                flag(true),
                flag(true),
                flag(false),
                int(2),
            ],
        ),
        line(
            "unique_dim",
            &[
                T(F32, &[5, 0]),
                int(0),
                flag(true),
                flag(true),
                flag(false),
                int(2),
            ],
        ),
        line(
            "unique_dim_consecutive",
            &[T(F32, &[5, 2]), int(0), flag(true), flag(false), int(2)],
        ),
    ];
    expect![[r#"
        _unique: iota sort compare compare compare and or slice slice compare concatenate convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical gather convert reduce_window add subtract convert optimization_barrier scatter -> tensor<3xf32> tensor<5xi64>
        _unique2: reshape iota sort compare slice slice compare concatenate convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical gather convert reduce_window add subtract convert optimization_barrier scatter reshape slice concatenate subtract convert -> tensor<3xi64> tensor<2x5xi64> tensor<3xi64>
        _unique2: -> tensor<0xi64> tensor<0xi64> tensor<0xi64>
        _unique2: NotImplemented: "unique" not implemented for 'ComplexFloat'
        bincount: compare compare or select reduce maximum convert optimization_barrier scatter add -> tensor<7xi64>; else RuntimeError: bincount only supports 1-d non-negative integral inputs.
        bincount: compare compare or select reduce maximum convert convert optimization_barrier scatter add -> tensor<7xf64>; else RuntimeError: bincount only supports 1-d non-negative integral inputs.
        bincount: Runtime: bincount only supports 1-d non-negative integral inputs.
        unique_consecutive: slice slice compare concatenate convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical gather convert reduce_window add subtract convert slice concatenate subtract convert -> tensor<3xf32> tensor<5xi64> tensor<3xi64>
        unique_consecutive: transpose slice slice compare concatenate reduce or convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical gather transpose slice concatenate subtract convert -> tensor<5x2xf32> tensor<0xi64> tensor<2xi64>
        unique_dim: transpose iota while compare dynamic_slice reshape gather sort compare compare compare and or subtract gather slice slice compare concatenate reduce or convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical gather convert reduce_window add subtract convert optimization_barrier scatter -> tensor<2x2xf32> tensor<5xi64> tensor<0xi64>
        unique_dim: Runtime: There are 0 sized dimensions, and they aren't selected, so unique cannot be applied
        unique_dim_consecutive: slice slice compare concatenate reduce or convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical gather convert reduce_window add subtract convert -> tensor<2x2xf32> tensor<5xi64> tensor<0xi64>
    "#]].assert_eq(&lines.concat());
}
