/* Stands in for a compression library that AMD's libLLVM.so names but that its wheel does not bring. Disassembling never
   calls it; anything that does must not go on. */
#include <stdio.h>
#include <stdlib.h>

static void refuse(const char* name) {
  fprintf(stderr, "gfx950 emulator: %s was called; this stand-in for zlib only lets libLLVM.so load\n", name);
  abort();
}

void compress2(void) { refuse("compress2"); }
void compressBound(void) { refuse("compressBound"); }
void crc32(void) { refuse("crc32"); }
void uncompress(void) { refuse("uncompress"); }
