/** Errors of the store. Callers never see an error of the Redis client. */

export const storeErrorKinds = [
  "timeout", // no reply within the deadline; the call may have run
  "unavailable", // no connection, loading, cluster down, failover; calls sent before may have run
  "overloaded", // too many calls in flight
  "out_of_memory", // maxmemory reached under noeviction
  "denied", // wrong password, or no permission for a command or key
  "script", // the script failed: a defect
  "closed", // the store was closed by its owner
] as const;
export type StoreErrorKind = (typeof storeErrorKinds)[number];

export class StoreError extends Error {
  readonly kind: StoreErrorKind;

  constructor(kind: StoreErrorKind, message: string, options?: ErrorOptions) {
    super(`store ${kind}: ${message}`, options);
    this.name = "StoreError";
    this.kind = kind;
  }
}

/** For calls to a store that its owner has closed. */
export function closedError(cause?: StoreError): StoreError {
  return new StoreError("closed", "the store was closed", { cause });
}

/** A script rejected an argument before it changed anything. */
export class InvalidArgument extends Error {
  readonly field: string;

  constructor(script: string, field: string) {
    super(`${script}: ${field} is missing, not an integer, negative or too large; nothing was changed`);
    this.name = "InvalidArgument";
    this.field = field;
  }
}
