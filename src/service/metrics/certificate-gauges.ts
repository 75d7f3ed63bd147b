/** The expiry of certificates as gauges. */
import { createSeries, type SeriesList } from "./series.js";

/** @param expiries Unix milliseconds by TLS section */
export function certificateGauges(expiries: ReadonlyMap<string, number> = new Map()): SeriesList {
  const series = createSeries();
  for (const [section, expiresAtMs] of expiries) {
    series.add("ratelimit_certificate_expiry_timestamp_seconds", [section], expiresAtMs / 1000);
  }
  return series.list();
}
