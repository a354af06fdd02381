use crate::{
    Arg,
    golden::{
        Given::{self, A, List, T},
        flag, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::DType::*;

fn ints(list: &[i64]) -> Given {
    A(Arg::Ints(list.into()))
}

fn list(l: &[Option<(tpu_hlo::DType, &'static [i64])>]) -> Given {
    List(l.to_vec())
}

#[test]
fn rows() {
    let lines = [
        line(
            "_index_put_impl",
            &[
                T(F32, &[2, 3, 4]),
                list(&[None, Some((I64, &[2]))]),
                T(F32, &[2, 4]),
                flag(true),
                flag(false),
            ],
        ),
        line(
            "_unsafe_index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((I64, &[2]))]),
                T(F32, &[]),
                flag(false),
            ],
        ),
        line(
            "index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((I64, &[2])), Some((I64, &[3, 1]))]),
                T(F32, &[4]),
                flag(false),
            ],
        ),
        line(
            "index_put",
            &[
                T(BF16, &[5]),
                list(&[Some((I64, &[2]))]),
                T(BF16, &[2]),
                flag(true),
            ],
        ),
        line(
            "index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((Bool, &[2, 3]))]),
                T(F32, &[4]),
                flag(false),
            ],
        ),
        line(
            "index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((Bool, &[2, 3]))]),
                T(F32, &[5, 4]),
                flag(false),
            ],
        ),
        line(
            "index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[None, Some((Bool, &[3]))]),
                T(F32, &[2, 1, 1]),
                flag(true),
            ],
        ),
        line(
            "index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((Bool, &[2])), None, Some((I64, &[]))]),
                T(F32, &[]),
                flag(false),
                int(1),
            ],
        ),
        line(
            "index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((I64, &[2]))]),
                T(F64, &[]),
                flag(false),
            ],
        ),
        line(
            "index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((I64, &[2]))]),
                T(F32, &[3, 3]),
                flag(false),
            ],
        ),
        line(
            "index_put",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((Bool, &[3]))]),
                T(F32, &[]),
                flag(false),
            ],
        ),
        line(
            "masked_scatter",
            &[T(F32, &[2, 3, 4]), T(Bool, &[4]), T(F32, &[9])],
        ),
        line(
            "masked_scatter",
            &[T(F32, &[2, 3, 4]), T(U8, &[4]), T(F32, &[9])],
        ),
        line(
            "masked_scatter_backward",
            &[T(F32, &[2, 3, 4]), T(Bool, &[2, 3, 4]), ints(&[3, 3])],
        ),
        line(
            "put",
            &[T(F32, &[2, 3, 4]), T(I64, &[2]), T(F32, &[2]), flag(true)],
        ),
        line(
            "put",
            &[T(F32, &[2, 3, 4]), T(I64, &[2]), T(F32, &[3]), flag(true)],
        ),
    ];
    expect![[r#"
        _index_put_impl: compare compare or select reduce maximum convert compare add select reshape broadcast_in_dim optimization_barrier scatter add -> tensor<2x3x4xf32>; else IndexError: index {} is out of bounds for dimension 1 with size 3
        _unsafe_index_put: compare compare or select reduce maximum convert compare add select reshape broadcast_in_dim optimization_barrier scatter -> tensor<2x3x4xf32>; else IndexError: index {} is out of bounds for dimension 0 with size 2
        index_put: compare compare or select reduce maximum convert compare add select broadcast_in_dim reshape compare compare or select reduce maximum convert compare add select broadcast_in_dim reshape concatenate broadcast_in_dim optimization_barrier scatter -> tensor<2x3x4xf32>; else IndexError: index {} is out of bounds for dimension 0 with size 2; else IndexError: index {} is out of bounds for dimension 1 with size 3
        index_put: compare compare or select reduce maximum convert compare add select reshape convert convert optimization_barrier scatter add convert -> tensor<5xbf16>; else IndexError: index {} is out of bounds for dimension 0 with size 5
        index_put: reshape broadcast_in_dim broadcast_in_dim select -> tensor<2x3x4xf32>
        index_put: convert reduce add convert compare select reshape convert reduce_window add subtract reshape gather broadcast_in_dim select -> tensor<2x3x4xf32>; else RuntimeError: shape mismatch: value tensor of shape [5, 4] cannot be broadcast to indexing result of shape [{}, 4]
        index_put: broadcast_in_dim broadcast_in_dim add select -> tensor<2x3x4xf32>
        index_put: convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical reshape compare compare or select reduce maximum convert compare add select broadcast_in_dim reshape concatenate broadcast_in_dim optimization_barrier scatter -> tensor<2x3x4xf32>; else IndexError: index {} is out of bounds for dimension 2 with size 4
        index_put: Runtime: Index put requires the source and destination dtypes match, got Float for the destination and Double for the source.
        index_put: Runtime: shape mismatch: value tensor of shape [3, 3] cannot be broadcast to indexing result of shape [2, 3, 4]
        index_put: Index: The shape of the mask [3] at index 0 does not match the shape of the indexed tensor [2, 3, 4] at index 0
        masked_scatter: broadcast_in_dim convert reduce add convert compare select reshape convert pad reshape reduce_window add slice reshape reduce_window add pad broadcast_in_dim add reshape slice subtract reshape gather select -> tensor<2x3x4xf32>; else RuntimeError: Number of elements of source < number of ones in mask
        masked_scatter: Runtime: masked_scatter_ only supports boolean masks, but got mask with dtype Byte
        masked_scatter_backward: reshape convert pad reshape reduce_window add slice reshape reduce_window add pad broadcast_in_dim add reshape slice iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical reshape gather compare select reshape -> tensor<3x3xf32>
        put: compare compare or select reduce maximum reshape compare add select convert optimization_barrier scatter add reshape -> tensor<2x3x4xf32>; else IndexError: out of range: tried to access index {} on a tensor of 24 elements.
        put: Runtime: put_(): Expected source and index to have the same number of elements
    "#]].assert_eq(&lines.concat());
}
