// The boundary between PyTorch's C++ and the Rust core: plain data, C linkage, no exceptions.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
void* tpu_cell_new(size_t nbytes, int32_t device);
void tpu_cell_free(void* cell);
int32_t tpu_cell_resize(void* cell, size_t nbytes);
int32_t tpu_cell_copy(void* dst, const void* src, size_t nbytes);
int32_t tpu_synchronize(int32_t device);
int32_t tpu_device_count(void);
int32_t tpu_is_forked(void);
void tpu_memory_stats(int32_t device, int64_t out[4]);
void tpu_memory_reset_peak(int32_t device);
uint64_t tpu_now_ns(void);
const char* tpu_last_error(void);
}

void tpu_check(int32_t rc);
