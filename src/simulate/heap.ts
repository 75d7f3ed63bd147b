/** A binary heap. */

export interface Heap<T> {
  add(item: T): void;
  first(): T | undefined;
  /** The heap must not be empty. */
  takeFirst(): T;
  size(): number;
  /** In no particular order. */
  items(): Iterable<T>;
}

export function createHeap<T>(isBefore: (a: T, b: T) => boolean): Heap<T> {
  const items: T[] = [];

  return {
    first: () => items[0],
    size: () => items.length,
    items: () => items,
    add(item) {
      let place = items.length;
      while (place > 0) {
        const above = (place - 1) >> 1;
        const other = items[above]!;
        if (!isBefore(item, other)) break;
        items[place] = other;
        place = above;
      }
      items[place] = item;
    },
    takeFirst() {
      const first = items[0]!;
      const last = items.pop()!;
      const count = items.length;
      if (count === 0) return first;
      let place = 0;
      for (;;) {
        let below = 2 * place + 1;
        if (below >= count) break;
        if (below + 1 < count && isBefore(items[below + 1]!, items[below]!)) below++;
        if (!isBefore(items[below]!, last)) break;
        items[place] = items[below]!;
        place = below;
      }
      items[place] = last;
      return first;
    },
  };
}
