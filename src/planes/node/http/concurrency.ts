/** Counts running requests by key, such as client address or app. */

export class Concurrency {
  private readonly running = new Map<string, number>();

  /** Counts one more, unless `max` of this key are running. 0: no maximum. */
  enter(key: string, max: number): boolean {
    const count = this.running.get(key) ?? 0;
    if (max > 0 && count >= max) return false;
    this.running.set(key, count + 1);
    return true;
  }

  leave(key: string): void {
    const count = this.running.get(key) ?? 0;
    if (count > 1) this.running.set(key, count - 1);
    else this.running.delete(key);
  }

  of(key: string): number {
    return this.running.get(key) ?? 0;
  }
}
