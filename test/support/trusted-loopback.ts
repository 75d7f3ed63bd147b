/** Clients of tests are on this machine and name their app: their headers are trusted unless the test says otherwise. */

/** `yaml` with trusted loopback addresses, if it has no section `identity`. */
export function trustingLoopback(yaml: string): string {
  if (/^identity:/m.test(yaml)) return yaml;
  return `${yaml}\nidentity: { trusted_hops: [127.0.0.0/8, "::1/128"] }\n`;
}
