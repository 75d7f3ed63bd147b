/** Reads a configuration file of envoyproxy/ratelimit. Rejects what envoyproxy/ratelimit rejects. */
import { nearest } from "../../config/nearest.js";
import { type Path, quoted, shownPath } from "../../config/problem.js";
import { DEEPEST_DESCRIPTOR } from "../../config/sections/rate-limits.js";
import { isSection, type Section } from "../../config/variables.js";
import { MAX_TOKENS } from "../../core/bucket.js";
import { APPS_DOMAIN } from "../../descriptors/limit-requests.js";
import { type Unit, units } from "../../descriptors/unit.js";

/** A descriptor of our configuration. */
export interface ImportedDescriptor {
  key: string;
  value?: string | undefined;
  rate_limit?: ImportedLimit | undefined;
  share_threshold?: true | undefined;
  shadow_mode?: true | undefined;
  quota_mode?: true | undefined;
  metadata?: Section | undefined;
  descriptors?: ImportedDescriptor[] | undefined;
}

interface ImportedLimit {
  unit?: Unit | undefined;
  requests_per_unit?: number | undefined;
  unlimited?: true | undefined;
  name?: string | undefined;
  replaces?: string[] | undefined;
}

export interface ImportedDomain {
  domain: string;
  descriptors: ImportedDescriptor[];
}

/** Receives the problems and differences with their path in the file. */
export interface Listener {
  invalid(path: Path, reason: string): void;
  differs(path: Path, difference: string): void;
}

const rootNames = ["domain", "descriptors"];
const descriptorNames = [
  "key",
  "value",
  "rate_limit",
  "descriptors",
  "shadow_mode",
  "quota_mode",
  "detailed_metric",
  "value_to_metric",
  "share_threshold",
  "metadata",
];
const limitNames = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
/** envoyproxy/ratelimit accepts every known name anywhere and ignores misplaced ones. */
const allNames = [...new Set([...rootNames, ...descriptorNames, ...limitNames])];
const MAX_UINT32 = 0xffff_ffff;

export function readRatelimitFile(raw: unknown, { invalid, differs }: Listener): ImportedDomain | undefined {
  if (!isSection(raw)) {
    invalid([], "must be a domain with descriptors");
    return undefined;
  }
  checkNames(raw, rootNames, []);
  const domain = textOf(raw.domain, ["domain"]);
  if (domain === undefined || domain === "") {
    invalid(["domain"], "is missing");
    return undefined;
  }
  if (domain === APPS_DOMAIN) invalid(["domain"], `${APPS_DOMAIN} is reserved for apps; use another name`);
  return { domain, descriptors: descriptorsOf(raw.descriptors, ["descriptors"], 1) };

  function checkNames(section: Section, known: string[], path: Path): void {
    for (const name of Object.keys(section)) {
      if (known.includes(name)) continue;
      if (allNames.includes(name)) {
        differs([...path, name], "has no effect here: omitted");
        continue;
      }
      const likely = nearest(name, known);
      invalid([...path, name], `unknown name${likely === undefined ? "" : `; did you mean ${likely}?`}`);
    }
  }

  /** Numbers and booleans are accepted as text. */
  function textOf(value: unknown, path: Path): string | undefined {
    if (value === undefined || value === null) return undefined;
    if (typeof value === "string") return value;
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    invalid(path, "must be a string");
    return undefined;
  }

  function flagOf(section: Section, name: string, path: Path): boolean {
    const value = section[name] ?? false;
    if (typeof value !== "boolean") invalid([...path, name], "must be true or false");
    return value === true;
  }

  function descriptorsOf(value: unknown, path: Path, depth: number): ImportedDescriptor[] {
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) {
      invalid(path, "must be a list");
      return [];
    }
    if (depth > DEEPEST_DESCRIPTOR) {
      invalid(path, `descriptors can be nested at most ${DEEPEST_DESCRIPTOR} levels deep`);
      return [];
    }
    return value.flatMap((one, i) => descriptorOf(one, [...path, i], depth) ?? []);
  }

  function descriptorOf(value: unknown, path: Path, depth: number): ImportedDescriptor | undefined {
    if (!isSection(value)) {
      invalid(path, "must be a section with a key");
      return undefined;
    }
    checkNames(value, descriptorNames, path);
    const key = textOf(value.key, [...path, "key"]) ?? "";
    if (key === "") invalid([...path, "key"], "is missing");
    if (key.includes("*")) differs([...path, "key"], "a * in a key has no special meaning");
    const own = textOf(value.value, [...path, "value"]) ?? "";
    const shared = flagOf(value, "share_threshold", path);
    if (shared && !own.includes("*")) {
      if (key.includes("*")) differs([...path, "share_threshold"], "requires a * in the value: omitted");
      else invalid([...path, "share_threshold"], "requires a value with a *");
    }
    for (const name of ["detailed_metric", "value_to_metric"]) {
      if (flagOf(value, name, path)) {
        differs([...path, name], "metrics are counted by rule, not by value: omitted");
      }
    }
    const nested = descriptorsOf(value.descriptors, [...path, "descriptors"], depth + 1);
    const { metadata } = value;
    if (metadata !== undefined && metadata !== null && !isSection(metadata))
      invalid([...path, "metadata"], "must be a section");
    return {
      key,
      value: own === "" ? undefined : own,
      rate_limit: limitOf(value.rate_limit, [...path, "rate_limit"]),
      share_threshold: (shared && own.includes("*")) || undefined,
      shadow_mode: flagOf(value, "shadow_mode", path) || undefined,
      quota_mode: flagOf(value, "quota_mode", path) || undefined,
      metadata: isSection(metadata) && Object.keys(metadata).length > 0 ? metadata : undefined,
      descriptors: nested.length === 0 ? undefined : nested,
    };
  }

  function limitOf(value: unknown, path: Path): ImportedLimit | undefined {
    if (value === undefined || value === null) return undefined;
    if (!isSection(value)) {
      invalid(path, "must be a section with unit and requests_per_unit");
      return undefined;
    }
    checkNames(value, limitNames, path);
    const unlimited = flagOf(value, "unlimited", path);
    const name = textOf(value.name, [...path, "name"]) ?? "";
    const replaces = replacesOf(value.replaces, name, [...path, "replaces"]);
    const unit = unitOf(value.unit, [...path, "unit"], unlimited);
    return {
      unit: unlimited ? undefined : unit,
      requests_per_unit: unlimited ? undefined : amountOf(value, path),
      unlimited: unlimited || undefined,
      name: name === "" ? undefined : name,
      replaces: replaces.length === 0 ? undefined : replaces,
    };
  }

  function unitOf(value: unknown, path: Path, unlimited: boolean): Unit | undefined {
    const text = textOf(value, path) ?? "";
    const unit = units.find((known) => known === text.toLowerCase());
    if (unlimited && unit !== undefined) invalid(path, "must not be given for an unlimited limit");
    if (!unlimited && unit === undefined) {
      invalid(path, `must be one of ${units.join(", ")}${text === "" ? "" : `, not ${quoted(text)}`}`);
    }
    return unit;
  }

  function amountOf({ requests_per_unit: value }: Section, path: Path): number {
    const place = [...path, "requests_per_unit"];
    if (value === undefined || value === null) {
      differs(place, "is missing, which admits nothing: written as 0");
      return 0;
    }
    if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > MAX_UINT32) {
      invalid(place, `must be an integer from 0 to ${MAX_UINT32}`);
      return 0;
    }
    if ((value as number) > MAX_TOKENS) differs(place, `the maximum is ${MAX_TOKENS}: written as that`);
    return Math.min(value as number, MAX_TOKENS);
  }

  function replacesOf(value: unknown, own: string, path: Path): string[] {
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) {
      invalid(path, "must be a list of names, such as - name: other");
      return [];
    }
    return value.map((one, i) => {
      const name = isSection(one) ? (textOf(one.name, [...path, i, "name"]) ?? "") : "";
      if (name === "") invalid([...path, i], "must have a name, such as - name: other");
      else if (name === own) invalid([...path, i], "must not name this limit");
      return name;
    });
  }
}

/** Duplicates by the rule of envoyproxy/ratelimit, which joins key and value. Returns the path of each. */
export function repeatedDescriptors(
  descriptors: readonly ImportedDescriptor[],
  path: Path,
): { path: Path; name: string }[] {
  const seen = new Set<string>();
  return descriptors.flatMap(({ key, value, descriptors: nested = [] }, i) => {
    const name = value === undefined ? key : `${key}_${value}`;
    const here = seen.has(name) ? [{ path: [...path, i], name }] : [];
    seen.add(name);
    return [...here, ...repeatedDescriptors(nested, [...path, i, "descriptors"])];
  });
}

export const placeIn = (file: string, path: Path) => (path.length === 0 ? file : `${file}: ${shownPath(path)}`);
