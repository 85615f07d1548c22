/* old-symbols.h - included before every file. It selects versions of libc's functions that exist since glibc
 * 2.17 (x86-64: 2.2.5), so that the library loads in images older than the machine that built it. musl has no
 * symbol versions and takes the functions by name. tests/component/test_shim.py checks the limit. */
#pragma once

#ifdef __ASSEMBLER__
#define OLD_SYMBOL(name)
#elif defined(__x86_64__)
#define OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#endif

/* In libc itself since 2.34, before that in libdl, which is linked for this reason. */
OLD_SYMBOL(dladdr);
OLD_SYMBOL(dlerror);
OLD_SYMBOL(dlopen);
OLD_SYMBOL(dlsym);
