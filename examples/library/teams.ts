/** The teams of the examples and their limits. A real server reads both from its database. */
import { createHash } from "node:crypto";
import { createLimiter } from "@tollgate/limiter";

/** Each team has its own bucket. A team that is not listed is refused, because there is no app "default" that it could share. */
export const limiter = await createLimiter({
  // One process: the store is inside it. Several processes share the limits through Redis: "redis://127.0.0.1:6379".
  store: process.env.TOLLGATE_STORE ?? "embedded",
  apps: {
    red: { guaranteed: 100, burst: 200 },
    tiny: { guaranteed: 1, burst: 2 },
    // Tries a limit out: decides and says so in X-RateLimit-Dry-Run, but refuses nothing.
    trial: { guaranteed: 1, burst: 2, dryRun: true },
  },
});

const digest = (text: string) => createHash("sha256").update(text).digest("hex");
/** Only digests of the API keys are stored. */
const teams = new Map(["red", "tiny", "trial"].map((team) => [digest(`example-key-of-${team}`), team]));

/** The team of an API key; undefined if the key is wrong. The app that pays must come from a checked credential like this one. */
export function teamOf(key: string | string[] | undefined): string | undefined {
  return typeof key === "string" ? teams.get(digest(key)) : undefined;
}
