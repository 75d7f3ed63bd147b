/** The store's own errors: callers see one of these kinds, never an error of the Redis client. */

export type StoreErrorKind =
  | "timeout" /** no answer within the deadline; the call may or may not have run */
  | "unavailable" /** no connection, loading, cluster down, failover under way; what was sent before may have run */
  | "overloaded" /** too many calls in flight */
  | "out_of_memory" /** maxmemory reached under noeviction */
  | "denied" /** wrong password, or a command or key the user may not use */
  | "script" /** the script itself failed: a defect */
  | "closed" /** the store was closed by its owner */;

export class StoreError extends Error {
  readonly kind: StoreErrorKind;

  constructor(kind: StoreErrorKind, message: string, options?: ErrorOptions) {
    super(`store ${kind}: ${message}`, options);
    this.name = "StoreError";
    this.kind = kind;
  }
}
