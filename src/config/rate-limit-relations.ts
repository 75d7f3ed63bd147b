/** Whether descriptor rules fit each other: what nobody could ever meet is a mistake. */
import { APPS_DOMAIN } from "../descriptors/limit-requests.js";
import type { Path } from "./problem.js";
import type { DescriptorConfig } from "./rate-limit-options.js";
import type { Complain } from "./relations.js";
import type { Config } from "./schema.js";

export function rateLimitsFit(domains: Config["rate_limits"], complain: Complain): void {
  const seen = new Map<string, number>();
  domains.forEach(({ domain, descriptors }, i) => {
    const before = seen.get(domain);
    if (before !== undefined) complain(["rate_limits", i, "domain"], `rate_limits[${before}] has the same domain`);
    seen.set(domain, i);
    if (domain === APPS_DOMAIN) complain(["rate_limits", i, "domain"], "is the domain of the apps; take another one");
    descriptorsFit(descriptors, ["rate_limits", i, "descriptors"], complain);
  });
}

function descriptorsFit(descriptors: readonly DescriptorConfig[], path: Path, complain: Complain): void {
  const seen = new Map<string, number>();
  descriptors.forEach(({ key, value, share_threshold, descriptors: nested = [] }, i) => {
    const name = JSON.stringify([key, value]);
    const before = seen.get(name);
    if (before !== undefined) {
      complain(
        [...path, i, value === undefined ? "key" : "value"],
        `number ${before} of the same list has the same key and value`,
      );
    }
    seen.set(name, i);
    if (share_threshold && !value?.includes("*")) {
      complain([...path, i, "share_threshold"], "needs a value with a * in it");
    }
    descriptorsFit(nested, [...path, i, "descriptors"], complain);
  });
}
