/** Options of a cost profile: how requests are priced. */
import { costProfiles, MAX_BYTES, MAX_COST } from "../../core/cost.js";
import { oneOf, optional, section, sectionOrName, whole } from "../values.js";

const profileNames = Object.keys(costProfiles) as [keyof typeof costProfiles];
const ofProfile = "from `based_on`";
const base = (methods: string) =>
  optional(whole(0, MAX_COST), ofProfile).describe(`Tokens for ${methods}, regardless of its size.`);

/** The name of a profile, or a profile based on a named one. */
export const profile = sectionOrName("based_on", profileNames, {
  based_on: oneOf(...profileNames)
    .default("standard")
    .describe("The profile that provides all other values."),
  base: section({
    GET: base("a GET"),
    HEAD: base("a HEAD"),
    OPTIONS: base("an OPTIONS"),
    DELETE: base("a DELETE"),
    POST: base("a POST"),
    PUT: base("a PUT"),
    PATCH: base("a PATCH"),
    other: base("any other method"),
  })
    .prefault({})
    .describe("Tokens per request, by method."),
  quantum: optional(whole(1, MAX_BYTES - 1), ofProfile).describe("Bytes per unit of bandwidth."),
  bandwidth: optional(whole(0, MAX_COST), ofProfile).describe("Tokens per started unit."),
  bytes: oneOf("both", "request", "response")
    .default("both")
    .describe("The bodies that are counted: of requests, of responses, or both."),
  max_cost: optional(whole(1, MAX_COST), ofProfile).describe("Maximum cost of a request."),
});
