/**
 * Converts a configuration file of envoyproxy/ratelimit. Rejects what envoyproxy/ratelimit rejects; values are validated by
 * the schema of our configuration.
 */
import { didYouMean } from "../../config/nearest.js";
import { type Path, problemsOf, shownPath } from "../../config/problem.js";
import { DEEPEST_DESCRIPTOR, rateLimitDomain } from "../../config/sections/rate-limits.js";
import { isSection, type Section } from "../../config/variables.js";
import { MAX_TOKENS } from "../../core/bucket.js";
import { units } from "../../limiter/descriptors/descriptor.js";
import { APPS_DOMAIN } from "../../limiter/descriptors/limit-requests.js";

/** A domain of our configuration. */
export interface ImportedDomain {
  domain: string;
  descriptors: Section[];
}

/** Receives the problems and differences with their path in the file. */
export interface Listener {
  invalid(path: Path, reason: string): void;
  differs(path: Path, difference: string): void;
}

const rootNames = ["domain", "descriptors"];
const flagNames = ["shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold"];
const descriptorNames = ["key", "value", "rate_limit", "descriptors", "metadata", ...flagNames];
const limitNames = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
/** envoyproxy/ratelimit accepts every known name anywhere and ignores misplaced ones. */
const allNames = [...rootNames, ...descriptorNames, ...limitNames];
const MAX_UINT32 = 0xffff_ffff;

const hasPattern = (value: unknown) => String(value ?? "").includes("*");

/** Values that the schema will reject are passed on. */
export function readRatelimitFile(raw: unknown, { invalid, differs }: Listener): ImportedDomain | undefined {
  if (!isSection(raw)) {
    invalid([], "must be a domain with descriptors");
    return undefined;
  }
  const { domain, descriptors } = knownOf(raw, rootNames, []);
  const file = { domain, descriptors: descriptorsOf(descriptors ?? [], ["descriptors"]) };
  if (domain === APPS_DOMAIN) invalid(["domain"], `${APPS_DOMAIN} is reserved for apps; use another name`);
  const checked = rateLimitDomain.safeParse(file);
  if (checked.success) return { domain: checked.data.domain, descriptors: file.descriptors as Section[] };
  for (const { place = [], value, reason } of problemsOf(checked.error.issues, "file", { file })) {
    invalid(place.slice(1), value === "" ? "is missing" : `${reason} (is ${value})`);
  }
  return undefined;

  /** The known values that are not empty. */
  function knownOf(section: Section, known: string[], path: Path): Section {
    for (const name of Object.keys(section)) {
      if (known.includes(name)) continue;
      if (allNames.includes(name)) differs([...path, name], "has no effect here: omitted");
      else invalid([...path, name], `unknown name${didYouMean(name, known)}`);
    }
    const isSet = ([name, value]: [string, unknown]) => known.includes(name) && value !== null && value !== "";
    return Object.fromEntries(Object.entries(section).filter(isSet));
  }

  function descriptorsOf(value: unknown, path: Path): unknown {
    if (!Array.isArray(value)) return value;
    // A path has a name and an index for each level.
    if (path.length < 2 * DEEPEST_DESCRIPTOR) return value.map((one, i) => descriptorOf(one, [...path, i]));
    invalid(path, `descriptors can be nested at most ${DEEPEST_DESCRIPTOR} levels deep`);
    return undefined;
  }

  function descriptorOf(value: unknown, path: Path): unknown {
    if (!isSection(value)) return value;
    const own = knownOf(value, descriptorNames, path);
    keepTrue(own, flagNames, path);
    if (hasPattern(own.key)) differs([...path, "key"], "a * in a key has no special meaning");
    for (const name of ["detailed_metric", "value_to_metric"]) {
      if (own[name]) differs([...path, name], "metrics are counted by rule, not by value: omitted");
      delete own[name];
    }
    if (own.share_threshold && !hasPattern(own.value)) {
      if (hasPattern(own.key)) differs([...path, "share_threshold"], "requires a * in the value: omitted");
      else invalid([...path, "share_threshold"], "requires a value with a *");
      delete own.share_threshold;
    }
    if (own.rate_limit !== undefined) own.rate_limit = limitOf(own.rate_limit, [...path, "rate_limit"]);
    if (own.descriptors !== undefined) own.descriptors = descriptorsOf(own.descriptors, [...path, "descriptors"]);
    return own;
  }

  /** Removes the flags that are not true. Unlike our schema, envoyproxy/ratelimit rejects quoted ones. */
  function keepTrue(section: Section, names: string[], path: Path): void {
    for (const name of names) {
      const flag = section[name];
      if (flag !== undefined && typeof flag !== "boolean") invalid([...path, name], "must be true or false");
      if (flag !== true) delete section[name];
    }
  }

  function limitOf(value: unknown, path: Path): unknown {
    if (!isSection(value)) return value;
    const given = knownOf(value, limitNames, path);
    keepTrue(given, ["unlimited"], path);
    const { unit, requests_per_unit, unlimited, replaces, ...own } = given;
    if (Array.isArray(replaces)) own.replaces = replaces.map((one) => (isSection(one) ? one.name : undefined));
    else if (replaces !== undefined) own.replaces = replaces;
    const known = units.find((name) => name === String(unit).toLowerCase());
    if (unlimited) return { unit: known, unlimited, ...own };
    const amount = amountOf(requests_per_unit, [...path, "requests_per_unit"]);
    return { unit: known ?? unit, requests_per_unit: amount, ...own };
  }

  function amountOf(value: unknown, path: Path): unknown {
    if (value === undefined) {
      differs(path, "is missing, which admits nothing: written as 0");
      return 0;
    }
    if (typeof value === "string") {
      invalid(path, `must be an integer from 0 to ${MAX_UINT32}`);
      return 0;
    }
    if (typeof value !== "number" || value <= MAX_TOKENS || value > MAX_UINT32) return value;
    differs(path, `the maximum is ${MAX_TOKENS}: written as that`);
    return MAX_TOKENS;
  }
}

/** Duplicates by the rule of envoyproxy/ratelimit, which joins key and value. Returns the path of each. */
export function repeatedDescriptors(descriptors: readonly Section[], path: Path): { path: Path; name: string }[] {
  const seen = new Set<string>();
  return descriptors.flatMap(({ key, value, descriptors: nested = [] }, i) => {
    const name = value === undefined ? String(key) : `${key}_${value}`;
    const here = seen.has(name) ? [{ path: [...path, i], name }] : [];
    seen.add(name);
    return [...here, ...repeatedDescriptors(nested as Section[], [...path, i, "descriptors"])];
  });
}

export const placeIn = (file: string, path: Path) => (path.length === 0 ? file : `${file}: ${shownPath(path)}`);
