// The boundary between PyTorch's C++ and the Rust core: plain data, C linkage, no exceptions.
#pragma once
#include <ATen/core/Tensor.h>

constexpr auto kTpu = c10::DeviceType::PrivateUse1;

extern "C" {
// A tensor, borrowed for a call. `cell` is the storage's data pointer; null for an undefined tensor.
struct TpuTensor {
  void* cell;
  const int64_t *sizes, *strides;
  int64_t offset;
  int32_t ndim;
  int8_t dtype;   // c10::ScalarType
  uint8_t flags;  // 1 conj, 2 neg
};

// clang-format off
enum TpuTag : uint8_t {
  kTpuNone, kTpuTensor, kTpuHost, kTpuTensors, kTpuInt, kTpuFloat, kTpuBool, kTpuComplex, kTpuInts, kTpuFloats, kTpuBools,
  kTpuNumbers, kTpuStr
};
// clang-format on

// An argument, borrowed for a call. kTpuHost: a 0-dimensional CPU tensor, whose value has the tag
// `number`. Lists of numbers point at TpuArgs, kTpuTensors at TpuTensors.
struct TpuArg {
  uint8_t tag, number;
  int8_t dtype;
  uint8_t wrapped;
  uint32_t len;
  union {
    int64_t i;
    double d;
    const void* p;
  } v;
  double im;
};

// What a call's numbers depend on besides its arguments.
struct TpuContext {
  int8_t default_dtype;
  uint8_t deterministic;
};

// A new tensor (cell owned by the caller; null: undefined), or after rc 100 the shape that the
// mutated tensor number `index` has to get. Pointers live until the thread's next call.
struct TpuResult {
  void* cell;
  const int64_t *sizes, *strides;
  size_t nbytes;
  int32_t ndim, index;
  int8_t dtype;
};

// Bytes, and a number of buffers.
struct TpuMemory {
  int64_t allocated, peak, limit, buffers;
};

void* tpu_cell_new(size_t nbytes, int32_t device);  // null: out of memory
void tpu_cell_free(void* cell);
int32_t tpu_cell_resize(void* cell, size_t nbytes);
int32_t tpu_cell_copy(void* dst, const void* src, size_t nbytes);
// `data`: the elements of a tensor that is its whole storage, in the storage's order.
int32_t tpu_cell_upload(const TpuTensor* tensor, const void* data, size_t nbytes);
// The storage's bytes on the host until tpu_host_release(*guard).
int32_t tpu_cell_host(const void* cell, const void** data, void** guard);
void tpu_host_release(void* guard);
int32_t tpu_share(const TpuTensor* dst, const TpuTensor* src, uint8_t* done);

// Ids of the kernels that serve the given schemas; UINT32_MAX for those that no row serves.
void tpu_plan(const char* const* schemas, uint32_t count, uint32_t* ids);
int32_t tpu_call(uint32_t kernel, const TpuArg* args, uint32_t count, const TpuContext* context, void* generator,
                 TpuResult* results, uint32_t capacity, uint32_t* produced);
// Counts a fallback; rc of the policy. `first` says whether to warn.
int32_t tpu_fallback(const char* op, uint64_t bytes, uint8_t* first);

void* tpu_pinned_new(size_t nbytes);  // null for nothing, and when there is no memory
void tpu_pinned_free(void* start);
int32_t tpu_pinned_owns(const void* address);
void tpu_pinned_stats(int64_t out[4]);  // blocks, most blocks, bytes, most bytes
void tpu_pinned_reset_peak(void);
uint64_t tpu_scalar_type_bits(void);  // bit n: c10::ScalarType n is supported
int32_t tpu_synchronize(int32_t device);
int32_t tpu_device_count(void);
TpuMemory tpu_memory_stats(int32_t device);
void tpu_memory_reset_peak(int32_t device);
uint64_t tpu_now_ns(void);
const char* tpu_last_error(void);
void tpu_generator_reserve(void* generator, uint64_t blocks, uint64_t* seed, uint64_t* offset);
}

constexpr int32_t kTpuOutOfMemory = 6;
// Throws the c10 exception of the kind rc.
void tpu_check(int32_t rc);

namespace tpu {
TpuTensor describe(const at::Tensor& t);
// Copies with conversion and broadcasting, both on the device.
void assign(const at::Tensor& target, const at::Tensor& source);
}  // namespace tpu
