/** `tollgate check-config --explain`: which limits a described request matches, with which buckets, and what it costs. */
import { isIP } from "node:net";
import { appLimits, limitRules } from "../config/options/limiter.js";
import { routePricing } from "../config/options/profiles.js";
import type { Config } from "../config/schema.js";
import { estimate, newLearnedSizes } from "../core/cost.js";
import { ANONYMOUS_USER, DEFAULT_APP } from "../core/identity.js";
import { costAtLimit } from "../engine/together.js";
import { type LimitMatch, type LimitRule, matchLimits, type RequestAttributes } from "../limit-rules/limit-rules.js";
import { sha1 } from "../limiter/limits/limit-checks.js";
import { bytesOf } from "../limiter/limits/limit-options.js";
import { UsageError } from "./command.js";
import { counted } from "./numbers.js";

const FORM =
  "must be like 'POST /login from 10.1.2.3 user ann app shop host example.com bytes 1000 header X-Plan=free'";

interface Described {
  request: RequestAttributes;
  bytes: number;
}

/** Followed by a value. */
type Word = "from" | "user" | "app" | "host" | "bytes";

/** Throws a UsageError that states the form. */
function parseRequest(text: string): Described {
  const [method = "", path = "", ...rest] = text.trim().split(/\s+/);
  if (!/^[A-Z][A-Z-]*$/.test(method) || !path.startsWith("/")) throw new UsageError(`--explain: ${FORM}`);
  const headers = new Map<string, string[]>();
  const values: Record<Word, string> = {
    from: "127.0.0.1",
    user: ANONYMOUS_USER,
    app: DEFAULT_APP,
    host: "",
    bytes: "0",
  };
  const isWord = (word: string): word is Word => Object.hasOwn(values, word);
  for (let i = 0; i < rest.length; i += 2) {
    const [word = "", value] = [rest[i], rest[i + 1]];
    if (value !== undefined && word === "header") {
      const [name = "", ...own] = value.split("=");
      headers.set(name.toLowerCase(), [...(headers.get(name.toLowerCase()) ?? []), bytesOf(own.join("="))]);
    } else if (value !== undefined && isWord(word)) values[word] = value;
    else throw new UsageError(`--explain: "${word}" is not expected; it ${FORM}`);
  }
  if (isIP(values.from) === 0) throw new UsageError(`--explain: "${values.from}" is not an address`);
  if (!/^[0-9]{1,15}$/.test(values.bytes)) throw new UsageError("--explain: bytes must be a whole number");
  return {
    bytes: Number(values.bytes),
    request: {
      method,
      path: bytesOf(path),
      app: values.app,
      user: values.user,
      host: values.host,
      address: values.from,
      headerCount: (name) => Math.min(headers.get(name)?.length ?? 0, 2),
      header: (name) => headers.get(name)?.[0] ?? "",
    },
  };
}

export interface ExplainedLimit {
  limit: string;
  result: "limited" | "allowed" | "denied" | "invalid";
  /** The bucket; empty if the value is allowed or invalid. */
  bucket: string;
  cost: number;
  rate: string;
  burst: number;
  dry_run: boolean;
}

export function explainRequest(config: Config, text: string) {
  const { request, bytes } = parseRequest(text);
  const app =
    appLimits(config).find(({ id }) => id === request.app) ?? appLimits(config).find(({ id }) => id === DEFAULT_APP);
  if (app === undefined) throw new UsageError(`--explain: ${request.app} is not one of apps`);
  request.app = app.id;
  const profile = routePricing(config)(request.host, request.path) ?? app.profile;
  const cost = estimate(profile, request.method, bytes, newLearnedSizes());
  const own = { cost, profile, method: request.method };
  const rules = limitRules(config);
  const { invalid, matches } = matchLimits(rules, request, sha1);
  const found = new Map<string, LimitMatch>(matches.map((match) => [match.rule.name, match]));
  const limits = config.limits.flatMap(({ name, rate }, i): ExplainedLimit[] => {
    const rule = rules.rules[i]!;
    const match = found.get(name);
    const withoutAllow: LimitRule = { ...rule, allow: { texts: [], networks: [] } };
    const isExempt =
      match === undefined && matchLimits({ ...rules, rules: [withoutAllow] }, request, sha1).matches.length > 0;
    if (match === undefined && !isExempt && invalid !== name) return [];
    const result = invalid === name ? "invalid" : match === undefined ? "allowed" : match.denied ? "denied" : "limited";
    const { burst, dryRun: dry_run } = rule.limits;
    return [
      { limit: name, result, bucket: match?.id ?? "", cost: costAtLimit(rule, own, bytes), rate, burst, dry_run },
    ];
  });
  return { app: app.id, cost, ...(profile.route === undefined ? {} : { prices_of_route: profile.route }), limits };
}

export function explanationText(config: Config, text: string): string {
  const { app, cost, prices_of_route: route, limits } = explainRequest(config, text);
  const lines = limits.map(({ limit, result, bucket, cost: tokens, rate, burst, dry_run }) => {
    if (result === "allowed") return `  ${limit}: not limited, the value is in allow`;
    if (result === "invalid") return `  ${limit}: 400, the value is invalid`;
    const dry = dry_run ? ", dry run" : "";
    if (result === "denied") return `  ${limit}: 403, the value is in deny${dry}`;
    return `  ${limit}: ${tokens} of ${burst}, refills ${rate}${dry}, bucket ${bucket}`;
  });
  const prices = route === undefined ? "" : `, by the profile of the route ${route}`;
  return [`app ${app}: ${counted(cost, "token")}${prices}`, ...(lines.length === 0 ? ["  no limit matches"] : lines)]
    .map((line) => `${line}\n`)
    .join("");
}
