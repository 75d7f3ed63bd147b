/** How often the lease of a connection slot is renewed: one number for all planes and for the store's lease clock. */

/** A connection is renewed this many times within one lease, so a lost renewal can be repeated before the lease ends. */
export const RENEWALS_PER_LEASE = 3;

/** Each connection is renewed once within this time. */
export function renewalMs(leaseMs: number): number {
  return leaseMs / RENEWALS_PER_LEASE;
}
