/** Compares options with their rules, because JavaScript callers have no compiler that checks them. */
import { type CostProfile, costProfiles, standardProfile } from "../../core/cost.js";
import { parseRate } from "../limits/limit-options.js";

/** A part of JSON Schema, and what an error says. */
export interface OptionRule {
  must: string;
  type?: string;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  enum?: readonly string[];
  pattern?: string;
  format?: string;
  items?: OptionRule;
  required?: readonly string[];
  properties?: Record<string, OptionRule>;
  /** Of a map with free names: the names, and the values. */
  propertyNames?: OptionRule;
  additionalProperties?: OptionRule;
}

export type ObjectRule = Pick<Required<OptionRule>, "required" | "properties">;

/** Throws an error that names the option and the reason. Options that are undefined have their default, unless they are required. */
export function checkObject(options: object, { required, properties }: ObjectRule, at: string): void {
  const values = new Map<string, unknown>(Object.entries(options));
  for (const name of new Set([...required, ...values.keys()])) {
    const rule = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (rule === undefined) {
      throw new TypeError(`${at}${name} is not an option; there are ${Object.keys(properties).join(", ")}`);
    }
    const value = values.get(name);
    if (value !== undefined || required.includes(name)) checkValue(value, rule, at + name);
  }
}

function checkValue(value: unknown, rule: OptionRule, at: string): void {
  const { items, properties, required = [], propertyNames, additionalProperties } = rule;
  if (!isValid(value, rule)) throw new RangeError(`${at} must ${rule.must}`);
  if (properties !== undefined && isObject(value)) checkObject(value, { required, properties }, `${at}.`);
  if (propertyNames !== undefined && additionalProperties !== undefined && isObject(value)) {
    for (const [name, one] of Object.entries(value)) {
      checkValue(name, propertyNames, `${at}: a name`);
      checkValue(one, additionalProperties, `${at}.${name}`);
    }
  }
  if (items !== undefined && Array.isArray(value)) {
    for (const [i, one] of value.entries()) checkValue(one, items, `${at}[${i}]`);
  }
}

function isValid(value: unknown, rule: OptionRule): boolean {
  const { minimum = -Infinity, maximum = Infinity, maxItems = Infinity, pattern } = rule;
  if (rule.format === "profile") return isProfile(value);
  if (rule.format === "store") return typeof value === "string" || isObject(value);
  switch (rule.type) {
    case "integer":
    case "number":
      if (typeof value !== "number" || (rule.type === "integer" && !Number.isInteger(value))) return false;
      return value >= minimum && value <= maximum;
    case "array":
      return Array.isArray(value) && value.length <= maxItems;
    case "object":
      return isObject(value);
    case "string":
      if (typeof value !== "string" || (pattern !== undefined && !new RegExp(pattern).test(value))) return false;
      if (rule.format === "rate") return parseRate(value) !== undefined;
      return rule.enum === undefined || rule.enum.includes(value);
    default:
      return typeof value === rule.type;
  }
}

function isProfile(value: unknown): boolean {
  if (!isObject(value)) return typeof value === "string" && Object.hasOwn(costProfiles, value);
  const { base, quantum, bandwidth, maxCost } = value as Partial<CostProfile>;
  const prices = new Map<string, unknown>(Object.entries(base ?? {}));
  const amounts = [
    quantum,
    bandwidth,
    maxCost,
    ...Object.keys(standardProfile.base).map((method) => prices.get(method)),
  ];
  return amounts.every((amount) => typeof amount === "number" && amount >= 0) && quantum !== 0;
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
