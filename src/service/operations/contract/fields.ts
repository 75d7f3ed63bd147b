/** Fields that several requests and replies share. */
import * as z from "zod";

export const count = () => z.int().min(0);

/** Requests by decision. */
export const counts = {
  requests: count(),
  allowed: count().describe("Admitted, including `dry_run_rejected`."),
  rejected: count().describe("Refused. Never includes what a dry run admitted."),
  dry_run_rejected: count().describe("Admitted because of a dry run; would be refused without it."),
};

export function reply<T extends z.ZodRawShape>(fields: T) {
  return z.strictObject({ ...fields, timestamp: z.iso.datetime().describe("Time of the reply.") });
}

export const identifier = () => z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/, "must be 1 to 128 of A–Z a–z 0–9 . _ : -");
/** A value from the store. */
export const known = () => z.number().nullable().describe("Null: the store does not answer.");
/** Fields of all requests that change something. */
export const order = {
  operator: z
    .string()
    .max(128)
    .optional()
    .describe("Who makes the change, for the audit log. Alternatively the header X-Operator."),
  reason: z.string().max(200).optional().describe("Why, for the audit log."),
};
export const megabytes = () => z.strictObject({ used_mb: z.number(), free_mb: z.number() });
