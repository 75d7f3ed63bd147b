/*
 * Whether this module knows the Envoy that loads it. Envoy does not tell modules its version, but the functions for HTTP filters
 * that it exports differ between minor versions, and a function that is missing or has changed would end the process at its first
 * call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "tollgate.h"

static const char PREFIX[] = "envoy_dynamic_module_callback_http_";

/* Sums of the hashes of the names. test/integration/planes/envoy/module-versions.test.ts computes them from the binaries. */
static const struct {
  const char *version;
  uint64_t functions;
} SUPPORTED[] = {
    {"1.38", 0xeb918f2464b66203},
    {"1.39", 0x2ece5a0b5cd2b49d},
    {"1.40", 0xabbac59c0f6c3043},
};

static uint64_t name_hash(const char *name) {
  uint64_t hash = 14695981039346656037u;
  for (; *name != '\0'; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211u;
  return hash;
}

/* The loader has added the base address to these pointers, except in some C libraries. */
static const void *pointer(const struct dl_phdr_info *program, ElfW(Addr) value) {
  return (const void *)(value < program->dlpi_addr ? value + program->dlpi_addr : value);
}

/* The number of symbols: a table for lookups by hash has the last one at the end of a chain. */
static uint32_t symbol_count(const uint32_t *table) {
  uint32_t buckets = table[0], first = table[1], filter_words = table[2], last = 0;
  const uint32_t *bucket = table + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t *chain = bucket + buckets;
  for (uint32_t i = 0; i < buckets; i++) {
    if (bucket[i] > last) last = bucket[i];
  }
  if (last < first) return 0;
  while ((chain[last - first] & 1) == 0) last++;
  return last + 1;
}

static int add_functions(struct dl_phdr_info *program, size_t size, void *result) {
  (void)size;
  const ElfW(Sym) *symbols = NULL;
  const char *names = NULL;
  const uint32_t *table = NULL;
  for (int i = 0; i < program->dlpi_phnum; i++) {
    if (program->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; entry++) {
      const void *value = pointer(program, entry->d_un.d_ptr);
      if (entry->d_tag == DT_SYMTAB) symbols = value;
      if (entry->d_tag == DT_STRTAB) names = value;
      if (entry->d_tag == DT_GNU_HASH) table = value;
    }
  }
  uint64_t *sum = result;
  uint32_t count = symbols == NULL || names == NULL || table == NULL ? 0 : symbol_count(table);
  for (uint32_t i = 0; i < count; i++) {
    const char *name = names + symbols[i].st_name;
    if (symbols[i].st_shndx != SHN_UNDEF && strncmp(name, PREFIX, sizeof PREFIX - 1) == 0) *sum += name_hash(name);
  }
  /* The program comes first. Libraries do not matter. */
  return 1;
}

static void refuse(uint64_t functions) {
  char text[512];
  int size = snprintf(text, sizeof text, "tollgate: this version of Envoy is not supported. libtollgate.so supports Envoy");
  for (size_t i = 0; i < sizeof SUPPORTED / sizeof *SUPPORTED; i++) {
    size += snprintf(text + size, sizeof text - (size_t)size, "%s %s", i == 0 ? "" : ",", SUPPORTED[i].version);
  }
  size += snprintf(text + size, sizeof text - (size_t)size, " (functions %016llx)", (unsigned long long)functions);
  if (dlsym(RTLD_DEFAULT, "envoy_dynamic_module_callback_log") != NULL) {
    CALLBACK(log)(ABI_LOG_ERROR, abi_text(text, (size_t)size));
  } else fprintf(stderr, "%s\n", text);
}

static const char *version = "";

bool envoy_is_supported(void) {
  uint64_t functions = 0;
  dl_iterate_phdr(add_functions, &functions);
  for (size_t i = 0; i < sizeof SUPPORTED / sizeof *SUPPORTED; i++) {
    if (SUPPORTED[i].functions != functions) continue;
    version = SUPPORTED[i].version;
    return true;
  }
  refuse(functions);
  return false;
}

bool envoy_joins_directions(void) { return strcmp(version, "1.38") == 0; }
