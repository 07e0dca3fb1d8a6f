// For loops over floats that the compiler should vectorise for the machine it finds itself on. Such a loop calls
// nothing but sqrt, and reductions keep a fixed number of lanes, so that every variant gives the same bits (contraction
// is off).
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DTRAIN_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DTRAIN_SANITIZED 1
#endif

// DTRAIN_CLONES before a function: compiled once for each instruction set, chosen when the program is loaded. Not under
// sanitizers, whose run-time is not ready yet when that choice is made. By level, not by processor: "arch=skylake-avx512"
// would match that one model and leave its successors with AVX2.
#if defined(__x86_64__) && !defined(DTRAIN_SANITIZED)
#define DTRAIN_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define DTRAIN_CLONES
#endif

// DTRAIN_INDEPENDENT before a loop: no iteration reads what another one writes, though pointers may be equal.
#if defined(__clang__)
#define DTRAIN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DTRAIN_INDEPENDENT _Pragma("GCC ivdep")
#endif
