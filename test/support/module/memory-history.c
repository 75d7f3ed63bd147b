/*
 * Random calls of memory.c by several threads, to be built with sanitizers. Each thread compares the results for its own keys with
 * a model; keys that all threads share are only called. Arguments: seed, threads, calls per thread.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tollgate.h"

int tollgate_get(struct state *, const char *, size_t);
int tollgate_set_text(struct state *, const char *, size_t, const char *, size_t, double, int);
int tollgate_set_number(struct state *, const char *, size_t, double, double, int);
int tollgate_add(struct state *, const char *, size_t, double, double);
void tollgate_delete(struct state *, const char *, size_t);
void tollgate_expire(struct state *, const char *, size_t, double);
double tollgate_push(struct state *, const char *, size_t, const char *, size_t);
int tollgate_pop(struct state *, const char *, size_t);
double tollgate_length(struct state *, const char *, size_t);
double tollgate_free(struct state *);
void *tollgate_cell(struct state *, const char *, size_t);
double tollgate_cell_get(void *);
double tollgate_cell_add(void *, double);
double tollgate_cell_take(void *, double);

enum { KEYS = 40, MOST_TEXT = 300, MOST_ITEMS = 8 };
/* Seconds of a life that ends within a history, and of one that does not. */
static const double SHORT_LIFE = 0.005, LONG_LIFE = 1000;

static _Atomic double clock_ms = 1;
static struct memory *memory;
static unsigned long calls;
static unsigned first_seed;
static _Atomic(void *) shared_cell;
static _Atomic double shared_sum;

double monotonic_ms(void) { return atomic_load(&clock_ms); }

/* What a key has, by the calls of the only thread that uses it. */
struct expected {
  enum { NONE, NUMBER, TEXT, QUEUE } kind;
  double number;
  double expires;
  size_t size;
  char text[MOST_TEXT];
  size_t items;
  size_t item_sizes[MOST_ITEMS];
  char first_bytes[MOST_ITEMS];
};

#define REQUIRE(condition)                                                     \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "line %d: %s, seed %u\n", __LINE__, #condition, first_seed); \
      abort();                                                                 \
    }                                                                          \
  } while (0)

struct player {
  unsigned seed;
  int number;
  struct state state;
  struct expected keys[KEYS];
};

static unsigned next(struct player *player, unsigned below) {
  player->seed = player->seed * 1664525u + 1013904223u;
  return (player->seed >> 8) % below;
}

static void call(struct player *player, const char *key, size_t size, struct expected *expected) {
  struct state *state = &player->state;
  double now = monotonic_ms();
  if (expected != NULL && expected->expires != 0 && now >= expected->expires) memset(expected, 0, sizeof *expected);
  char text[MOST_TEXT];
  size_t length = next(player, MOST_TEXT);
  memset(text, 'a' + (int)next(player, 26), sizeof text);
  double seconds = (double[]){0, SHORT_LIFE, LONG_LIFE}[next(player, 3)];
  double expires = seconds > 0 ? now + seconds * 1000 : 0;
  bool only_new = next(player, 4) == 0;
  switch (next(player, 9)) {
    case 0: {
      int stored = tollgate_set_text(state, key, size, text, length, seconds, only_new);
      if (expected == NULL) return;
      REQUIRE(stored == (only_new && expected->kind != NONE ? 2 : 1));
      if (stored != 1) return;
      memset(expected, 0, sizeof *expected);
      expected->kind = TEXT;
      expected->size = length;
      expected->expires = expires;
      memcpy(expected->text, text, length);
      return;
    }
    case 1: {
      double number = next(player, 1000);
      int stored = tollgate_set_number(state, key, size, number, seconds, only_new);
      if (expected == NULL) return;
      REQUIRE(stored == (only_new && expected->kind != NONE ? 2 : 1));
      if (stored != 1) return;
      memset(expected, 0, sizeof *expected);
      expected->kind = NUMBER;
      expected->number = number;
      expected->expires = expires;
      return;
    }
    case 2: {
      double initial = next(player, 2) == 0 ? 7 : NAN;
      int added = tollgate_add(state, key, size, 3, initial);
      if (expected == NULL) return;
      if (expected->kind == NONE && !isnan(initial)) {
        expected->kind = NUMBER;
        expected->number = initial;
      }
      REQUIRE(added == (expected->kind == NUMBER));
      if (added) REQUIRE(state->context.number == (expected->number += 3));
      return;
    }
    case 3:
      tollgate_delete(state, key, size);
      if (expected != NULL) memset(expected, 0, sizeof *expected);
      return;
    case 4:
      tollgate_expire(state, key, size, seconds);
      if (expected != NULL && expected->kind != NONE) expected->expires = expires;
      return;
    case 5: {
      if (expected != NULL && expected->items == MOST_ITEMS) return;
      double count = tollgate_push(state, key, size, text, length);
      if (expected == NULL) return;
      bool possible = expected->kind == NONE || expected->kind == QUEUE;
      REQUIRE(count == (possible ? (double)expected->items + 1 : 0));
      if (!possible) return;
      expected->kind = QUEUE;
      expected->item_sizes[expected->items] = length;
      expected->first_bytes[expected->items++] = text[0];
      return;
    }
    case 6: {
      int taken = tollgate_pop(state, key, size);
      if (expected == NULL) return;
      REQUIRE(taken == (expected->items > 0));
      if (!taken) return;
      REQUIRE((size_t)state->context.size == expected->item_sizes[0]);
      if (state->context.size > 0) REQUIRE(state->context.data[0] == expected->first_bytes[0]);
      expected->items--;
      memmove(expected->item_sizes, expected->item_sizes + 1, sizeof expected->item_sizes - sizeof(size_t));
      memmove(expected->first_bytes, expected->first_bytes + 1, sizeof expected->first_bytes - 1);
      return;
    }
    case 7: {
      double count = tollgate_length(state, key, size);
      if (expected != NULL) REQUIRE(count == (double)expected->items);
      return;
    }
    default: {
      int kind = tollgate_get(state, key, size);
      if (expected == NULL) return;
      REQUIRE(kind == (expected->kind == NUMBER ? 1 : expected->kind == TEXT ? 2 : 0));
      if (kind == 1) REQUIRE(state->context.number == expected->number);
      if (kind == 2) {
        REQUIRE((size_t)state->context.size == expected->size);
        REQUIRE(memcmp(state->context.data, expected->text, expected->size) == 0);
      }
    }
  }
}

static void *play(void *given) {
  struct player *player = given;
  char key[32];
  for (unsigned long i = 0; i < calls; i++) {
    unsigned at = next(player, KEYS);
    bool own = next(player, 2) == 0;
    int size = own ? snprintf(key, sizeof key, "own-%d-%u", player->number, at) : snprintf(key, sizeof key, "all-%u", at);
    call(player, key, (size_t)size, own ? &player->keys[at] : NULL);
    void *cell = atomic_load(&shared_cell);
    double amount = next(player, 5);
    if (next(player, 2) == 0) {
      tollgate_cell_add(cell, amount);
      double sum = atomic_load(&shared_sum);
      while (!atomic_compare_exchange_weak(&shared_sum, &sum, sum + amount)) continue;
    } else if (tollgate_cell_take(cell, amount) >= 0) {
      double sum = atomic_load(&shared_sum);
      while (!atomic_compare_exchange_weak(&shared_sum, &sum, sum - amount)) continue;
    }
    REQUIRE(tollgate_cell_get(cell) >= 0);
    /* Only with one thread is the time the same for the model and for the memory. */
    if (player->number < 0) atomic_store(&clock_ms, monotonic_ms() + 0.1);
  }
  for (unsigned at = 0; at < KEYS; at++) {
    int size = snprintf(key, sizeof key, "own-%d-%u", player->number, at);
    tollgate_delete(&player->state, key, (size_t)size);
    size = snprintf(key, sizeof key, "all-%u", at);
    tollgate_delete(&player->state, key, (size_t)size);
  }
  free(player->state.copied.data);
  return NULL;
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  first_seed = (unsigned)strtoul(arguments[1], NULL, 10);
  int threads = atoi(arguments[2]);
  calls = strtoul(arguments[3], NULL, 10);
  memory = memory_new();
  struct node node = {.memory = memory};
  struct plane plane = {.node = &node};
  struct player *players = calloc((size_t)threads, sizeof *players);
  pthread_t *ids = calloc((size_t)threads, sizeof *ids);
  struct state main_state = {.plane = &plane};
  double unused = tollgate_free(&main_state);
  atomic_store(&shared_cell, tollgate_cell(&main_state, "cell", 4));
  double with_cell = tollgate_free(&main_state);
  for (int i = 0; i < threads; i++) {
    players[i].seed = first_seed + (unsigned)i;
    players[i].number = threads == 1 ? -1 : i;
    players[i].state.plane = &plane;
    REQUIRE(pthread_create(&ids[i], NULL, play, &players[i]) == 0);
  }
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  REQUIRE(tollgate_cell_get(shared_cell) == shared_sum);
  /* Everything else was deleted. */
  REQUIRE(tollgate_free(&main_state) == with_cell);
  REQUIRE(with_cell < unused);
  free(players);
  free(ids);
  puts("passed");
  return 0;
}
