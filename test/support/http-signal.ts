/** A promise that is resolved from outside, to signal an event in a backend to the test. */

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
