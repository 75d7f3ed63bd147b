/** Schemas of the admin and health API. Validation, types and the OpenAPI document are derived from them. */
import * as z from "zod";

export const problemReply = z.strictObject({
  error: z.string().describe("The kind of error, such as invalid_argument or forbidden."),
  reason: z.string().describe("What exactly is wrong."),
  field: z.string().optional().describe("The invalid field or option."),
  detail: z.string().optional(),
  problems: z
    .array(z.strictObject({ path: z.string(), value: z.string(), reason: z.string() }))
    .optional()
    .describe("All problems of a configuration."),
});

export type Problem = z.output<typeof problemReply>;

export * from "./admin.js";
export * from "./apps.js";
export * from "./configuration.js";
export * from "./health.js";
export * from "./limits.js";
