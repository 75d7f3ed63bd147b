/** A promise that somebody else resolves: how a test hears from within a backend. */

export interface Signal<T> {
  promise: Promise<T>;
  resolve: (value: T) => void;
}

export function signal<T = void>(): Signal<T> {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
