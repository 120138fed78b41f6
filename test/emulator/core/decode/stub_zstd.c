/* As stub_z.c, for zstd. */
#include <stdio.h>
#include <stdlib.h>

static void refuse(const char* name) {
  fprintf(stderr, "gfx950 emulator: %s was called; this stand-in for zstd only lets libLLVM.so load\n", name);
  abort();
}

void ZSTD_CCtx_setParameter(void) { refuse("ZSTD_CCtx_setParameter"); }
void ZSTD_compress2(void) { refuse("ZSTD_compress2"); }
void ZSTD_compressBound(void) { refuse("ZSTD_compressBound"); }
void ZSTD_createCCtx(void) { refuse("ZSTD_createCCtx"); }
void ZSTD_decompress(void) { refuse("ZSTD_decompress"); }
void ZSTD_freeCCtx(void) { refuse("ZSTD_freeCCtx"); }
void ZSTD_getErrorName(void) { refuse("ZSTD_getErrorName"); }
void ZSTD_isError(void) { refuse("ZSTD_isError"); }
