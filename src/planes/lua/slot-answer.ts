/** What became of a question about a slot. */

/** The service answered what was asked. */
export const ANSWERED = "answered";
/** It could not just now: asking again makes sense. */
export const BUSY = "busy";
/** Nobody is there, or the store behind the services is not. */
export const ABSENT = "absent";
/** The service has no such route: its configuration is another one. */
export const MISFIT = "misfit";

export interface SlotAnswer {
  outcome: string;
  allowed: boolean;
  code: string;
  pod: string;
  retryAfterSeconds: number;
  memory: string;
}
