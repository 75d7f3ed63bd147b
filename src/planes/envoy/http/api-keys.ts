/** The app of an API key. The options contain only the SHA-1 of keys. */

import { worker } from "../state.js";
import { sha1Base64 } from "./sha1.js";

const keysSeen: { apps: { [key: string]: string | undefined }; count: number } = { apps: {}, count: 0 };
const MOST_SEEN = 10000;
/** Longer keys are not configured. */
const LONGEST_KEY = 4096;

/** Empty for an unknown key. */
export function appOfKey(key: string): string {
  const known = keysSeen.apps[key];
  if (known !== undefined) return known;
  if (key.length > LONGEST_KEY) return "";
  if (keysSeen.count >= MOST_SEEN) {
    keysSeen.apps = {};
    keysSeen.count = 0;
  }
  const app = worker.options.identity.apiKeys[sha1Base64(key)] ?? "";
  keysSeen.apps[key] = app;
  keysSeen.count = keysSeen.count + 1;
  return app;
}
