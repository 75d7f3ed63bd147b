/*
 * Replaces malloc and free in the C code of Envoy's dynamic module: each block ends at a page that cannot be accessed, and a
 * released block cannot be accessed again. Envoy then ends with SIGSEGV at the first access outside of a block. A released Envoy
 * cannot run with the address sanitizer, because it has an allocator of its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* The system permits 65,530 mappings; a block is two. Others come from the ordinary allocator. */
enum { PAGE = 4096, MOST_BLOCKS = 12000, MOST_RELEASED = 12000, ALIGNMENT = 16 };

void *malloc(size_t);
void *realloc(void *, size_t);
void free(void *);

struct block {
  char *start; /* of its pages */
  size_t pages;
  size_t size;
  char *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[MOST_BLOCKS];
static size_t free_numbers[MOST_BLOCKS];
static size_t free_count, used_count;
static struct block released[MOST_RELEASED];
static size_t released_at;
/* The number of a block by its data: open addressing. */
enum { SLOTS = 65536 };
static struct {
  char *data;
  size_t number;
} slots[SLOTS];

static size_t slot_of(const char *data) {
  size_t slot = ((uintptr_t)data * 0x9E3779B97F4A7C15u) >> 48;
  while (slots[slot % SLOTS].data != NULL && slots[slot % SLOTS].data != data) slot++;
  return slot % SLOTS;
}

static void forget(size_t slot) {
  slots[slot].data = NULL;
  /* Those behind it may have been placed there because it was taken. */
  for (size_t next = (slot + 1) % SLOTS; slots[next].data != NULL; next = (next + 1) % SLOTS) {
    char *data = slots[next].data;
    size_t number = slots[next].number;
    slots[next].data = NULL;
    size_t place = slot_of(data);
    slots[place].data = data;
    slots[place].number = number;
  }
}

static bool take_number(size_t *number) {
  if (free_count > 0) *number = free_numbers[--free_count];
  else if (used_count < MOST_BLOCKS) *number = used_count++;
  else return false;
  return true;
}

void *guarded_malloc(size_t size) {
  size_t room = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  size_t pages = room / PAGE + (room % PAGE != 0 || room == 0) + 1, number;
  pthread_mutex_lock(&lock);
  char *start = take_number(&number) ? mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                     : MAP_FAILED;
  if (start == MAP_FAILED) {
    pthread_mutex_unlock(&lock);
    return malloc(size);
  }
  mprotect(start + (pages - 1) * PAGE, PAGE, PROT_NONE);
  char *data = start + (pages - 1) * PAGE - room;
  /* Neither zero nor what was there before: code that relies on either fails. */
  memset(data, 0xA5, room);
  size_t slot = slot_of(data);
  slots[slot].data = data;
  slots[slot].number = number;
  blocks[number] = (struct block){start, pages, size, data};
  pthread_mutex_unlock(&lock);
  return data;
}

/* The block with this data; with the lock. */
static struct block *find(void *data, size_t *slot) {
  *slot = slot_of(data);
  return slots[*slot].data == NULL ? NULL : &blocks[slots[*slot].number];
}

void guarded_free(void *data) {
  size_t slot;
  if (data == NULL) return;
  pthread_mutex_lock(&lock);
  struct block *block = find(data, &slot);
  if (block != NULL) {
    mprotect(block->start, block->pages * PAGE, PROT_NONE);
    struct block *oldest = &released[released_at++ % MOST_RELEASED];
    if (oldest->start != NULL) munmap(oldest->start, oldest->pages * PAGE);
    *oldest = *block;
    free_numbers[free_count++] = slots[slot].number;
    forget(slot);
  }
  pthread_mutex_unlock(&lock);
  if (block == NULL) free(data);
}

void *guarded_calloc(size_t count, size_t size) {
  void *data = guarded_malloc(count * size);
  if (data != NULL) memset(data, 0, count * size);
  return data;
}

/* Always moves, so that pointers to the former block are noticed. */
void *guarded_realloc(void *data, size_t size) {
  size_t slot;
  if (data == NULL) return guarded_malloc(size);
  pthread_mutex_lock(&lock);
  struct block *block = find(data, &slot);
  size_t before = block == NULL ? 0 : block->size;
  pthread_mutex_unlock(&lock);
  if (block == NULL) return realloc(data, size);
  void *moved = guarded_malloc(size);
  if (moved == NULL) return NULL;
  memcpy(moved, data, before < size ? before : size);
  guarded_free(data);
  return moved;
}

char *guarded_strndup(const char *text, size_t size) {
  size = strnlen(text, size);
  char *copy = guarded_malloc(size + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, size);
  copy[size] = '\0';
  return copy;
}
