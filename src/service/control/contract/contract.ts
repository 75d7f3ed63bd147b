/** What operators can ask of the control listener and what it answers: the schemas behind its checks, its types and its OpenAPI document. */
import * as z from "zod";

export const problemReply = z.strictObject({
  error: z.string().describe("The kind of refusal, such as bad_request or forbidden."),
  reason: z.string().describe("What exactly was wrong."),
  field: z.string().optional().describe("The field or option that was wrong."),
  detail: z.string().optional(),
  problems: z
    .array(z.strictObject({ path: z.string(), value: z.string(), reason: z.string() }))
    .optional()
    .describe("All that is wrong with a configuration."),
});

export type Problem = z.output<typeof problemReply>;

export * from "./apps.js";
export * from "./health.js";
export * from "./orders.js";
