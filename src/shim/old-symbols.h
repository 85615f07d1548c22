/* old-symbols.h - put in front of every file: versions of libc's functions that have been there since
 * glibc 2.17 (x86-64: 2.2.5), so that the library loads in images older than the machine that built it. musl
 * knows no versions and takes them by name. tests/component/test_shim.py has the limit.
 */
#pragma once

#ifdef __ASSEMBLER__
#define OLD_SYMBOL(name)
#elif defined(__x86_64__)
#define OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#endif

/* In libc itself since 2.34, before in libdl, which is linked for that reason. */
OLD_SYMBOL(dladdr);
OLD_SYMBOL(dlerror);
OLD_SYMBOL(dlopen);
OLD_SYMBOL(dlsym);
