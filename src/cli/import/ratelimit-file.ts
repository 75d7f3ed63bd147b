/** Reads the YAML of envoyproxy/ratelimit as it reads it itself: what it refuses is refused, with file and place. */
import { nearest } from "../../config/nearest.js";
import { type Path, quoted, shownPath } from "../../config/problem.js";
import { DEEPEST_DESCRIPTOR } from "../../config/rate-limit-options.js";
import { isSection, type Section } from "../../config/variables.js";
import { MAX_TOKENS } from "../../core/bucket.js";
import { APPS_DOMAIN } from "../../descriptors/limit-requests.js";
import { type Unit, units } from "../../descriptors/unit.js";

/** As our configuration has it; what is not said is left out. */
export interface ImportedDescriptor {
  key: string;
  value?: string;
  rate_limit?: {
    unit?: Unit;
    requests_per_unit?: number;
    unlimited?: true;
    name?: string;
    replaces?: string[];
  };
  share_threshold?: true;
  shadow_mode?: true;
  quota_mode?: true;
  metadata?: Section;
  descriptors?: ImportedDescriptor[];
}

export interface ImportedDomain {
  domain: string;
  descriptors: ImportedDescriptor[];
}

/** Tells what cannot be, and what is not the same here, each with its place in the file. */
export interface Listener {
  wrong(path: Path, reason: string): void;
  differs(path: Path, what: string): void;
}

const rootNames = ["domain", "descriptors"];
const descriptorNames = [
  ...["key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode"],
  ...["detailed_metric", "value_to_metric", "share_threshold", "metadata"],
];
const limitNames = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
/** It knows one list of names for all places, and passes over those that mean nothing where they stand. */
const allNames = [...new Set([...rootNames, ...descriptorNames, ...limitNames])];
const MOST_UINT32 = 0xffff_ffff;

export function readRatelimitFile(raw: unknown, { wrong, differs }: Listener): ImportedDomain | undefined {
  if (!isSection(raw)) {
    wrong([], "must be a domain with descriptors");
    return undefined;
  }
  checkNames(raw, rootNames, []);
  const domain = textOf(raw.domain, ["domain"]);
  if (domain === undefined || domain === "") {
    wrong(["domain"], "must be given");
    return undefined;
  }
  if (domain === APPS_DOMAIN) wrong(["domain"], `${APPS_DOMAIN} is the domain of the apps here; take another name`);
  return { domain, descriptors: descriptorsOf(raw.descriptors, ["descriptors"], 1) };

  function checkNames(section: Section, known: string[], path: Path): void {
    for (const name of Object.keys(section)) {
      if (known.includes(name)) continue;
      if (allNames.includes(name)) {
        differs([...path, name], "means nothing at this place, there as here: left out");
        continue;
      }
      const likely = nearest(name, known);
      wrong([...path, name], `there is no such name${likely === undefined ? "" : `; did you mean ${likely}?`}`);
    }
  }

  /** Numbers and yes or no are texts where a text is wanted. */
  function textOf(value: unknown, path: Path): string | undefined {
    if (value === undefined || value === null) return undefined;
    if (typeof value === "string") return value;
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    wrong(path, "must be a text");
    return undefined;
  }

  function flagOf(section: Section, name: string, path: Path): boolean {
    const value = section[name] ?? false;
    if (typeof value !== "boolean") wrong([...path, name], "must be true or false");
    return value === true;
  }

  function descriptorsOf(value: unknown, path: Path, depth: number): ImportedDescriptor[] {
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) {
      wrong(path, "must be a list");
      return [];
    }
    if (depth > DEEPEST_DESCRIPTOR) {
      wrong(path, `descriptors may be nested ${DEEPEST_DESCRIPTOR} deep at most`);
      return [];
    }
    return value.flatMap((one, i) => descriptorOf(one, [...path, i], depth) ?? []);
  }

  function descriptorOf(value: unknown, path: Path, depth: number): ImportedDescriptor | undefined {
    if (!isSection(value)) {
      wrong(path, "must be a section with a key");
      return undefined;
    }
    checkNames(value, descriptorNames, path);
    const key = textOf(value.key, [...path, "key"]) ?? "";
    if (key === "") wrong([...path, "key"], "must be given");
    if (key.includes("*")) differs([...path, "key"], "a * in a key stands for itself here");
    const own = textOf(value.value, [...path, "value"]) ?? "";
    const shared = flagOf(value, "share_threshold", path);
    if (shared && !own.includes("*")) {
      if (key.includes("*")) differs([...path, "share_threshold"], "needs a * in the value here: left out");
      else wrong([...path, "share_threshold"], "needs a value with a * in it");
    }
    for (const name of ["detailed_metric", "value_to_metric"]) {
      if (flagOf(value, name, path)) {
        differs([...path, name], "metrics are counted by rule, never by value: left out");
      }
    }
    const limit = limitOf(value.rate_limit, [...path, "rate_limit"]);
    const nested = descriptorsOf(value.descriptors, [...path, "descriptors"], depth + 1);
    const { metadata } = value;
    if (metadata !== undefined && metadata !== null && !isSection(metadata))
      wrong([...path, "metadata"], "must be a section");
    return {
      key,
      ...(own === "" ? {} : { value: own }),
      ...(limit === undefined ? {} : { rate_limit: limit }),
      ...(shared && own.includes("*") ? { share_threshold: true } : {}),
      ...(flagOf(value, "shadow_mode", path) ? { shadow_mode: true } : {}),
      ...(flagOf(value, "quota_mode", path) ? { quota_mode: true } : {}),
      ...(isSection(metadata) && Object.keys(metadata).length > 0 ? { metadata } : {}),
      ...(nested.length === 0 ? {} : { descriptors: nested }),
    };
  }

  function limitOf(value: unknown, path: Path): ImportedDescriptor["rate_limit"] {
    if (value === undefined || value === null) return undefined;
    if (!isSection(value)) {
      wrong(path, "must be a section with unit and requests_per_unit");
      return undefined;
    }
    checkNames(value, limitNames, path);
    const unlimited = flagOf(value, "unlimited", path);
    const name = textOf(value.name, [...path, "name"]) ?? "";
    const replaces = replacesOf(value.replaces, name, [...path, "replaces"]);
    const named = {
      ...(name === "" ? {} : { name }),
      ...(replaces.length === 0 ? {} : { replaces }),
    };
    const unit = unitOf(value.unit, [...path, "unit"], unlimited);
    if (unlimited) return { unlimited: true, ...named };
    return { ...(unit === undefined ? {} : { unit }), requests_per_unit: amountOf(value, path), ...named };
  }

  function unitOf(value: unknown, path: Path, unlimited: boolean): Unit | undefined {
    const text = textOf(value, path) ?? "";
    const unit = units.find((known) => known === text.toLowerCase());
    if (unlimited && unit !== undefined) wrong(path, "must not be given where it is unlimited");
    if (!unlimited && unit === undefined) {
      wrong(path, `must be one of ${units.join(", ")}${text === "" ? "" : `, not ${quoted(text)}`}`);
    }
    return unit;
  }

  function amountOf({ requests_per_unit: value }: Section, path: Path): number {
    const place = [...path, "requests_per_unit"];
    if (value === undefined || value === null) {
      differs(place, "is not given, which lets nothing pass: written as 0");
      return 0;
    }
    if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > MOST_UINT32) {
      wrong(place, `must be a whole number from 0 to ${MOST_UINT32}`);
      return 0;
    }
    if ((value as number) > MAX_TOKENS) differs(place, `a bucket holds ${MAX_TOKENS} at most: written as that`);
    return Math.min(value as number, MAX_TOKENS);
  }

  function replacesOf(value: unknown, own: string, path: Path): string[] {
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) {
      wrong(path, "must be a list of names, as - name: other");
      return [];
    }
    return value.map((one, i) => {
      const name = isSection(one) ? (textOf(one.name, [...path, i, "name"]) ?? "") : "";
      if (name === "") wrong([...path, i], "must have a name, as - name: other");
      else if (name === own) wrong([...path, i], "must be another limit than this one");
      return name;
    });
  }
}

/** Where it would refuse two descriptors for one: it puts key and value together. Answers the place of each such. */
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
