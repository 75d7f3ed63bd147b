/** Fields that many replies and requests of the control listener have. */
import * as z from "zod";

export const count = () => z.int().min(0);
export const timestamp = () => z.iso.datetime().describe("When this was answered.");
export const appId = () =>
  z
    .string()
    .min(1)
    .max(128)
    .regex(/^[A-Za-z0-9._:-]+$/, "must be 1 to 128 of A–Z a–z 0–9 . _ : -");
const words = (most: number) => z.string().max(most);
/** What only the store can tell. */
export const known = () => z.number().nullable().describe("Null: the store does not answer.");
export const operator = () =>
  words(128).optional().describe("Who orders it; goes into the audit log. Also: X-Operator.");
export const reason = () => words(200).optional().describe("Why; goes into the audit log.");
export const megabytes = () => z.strictObject({ used_mb: z.number(), free_mb: z.number() });
