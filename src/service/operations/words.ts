/** Numbers and times as people say them. */

/** Whole tokens with thousands apart; what is less than a token is rounded away from nothing. */
export function amount(tokens: number): string {
  return Math.floor(tokens).toLocaleString("en-US");
}

export function rate(tokensPerSecond: number): string {
  return tokensPerSecond.toLocaleString("en-US", { maximumFractionDigits: 6 });
}

/** What a bucket gets. */
export function incoming(tokensPerSecond: number): string {
  return tokensPerSecond === 1 ? "1 token per second comes in" : `${rate(tokensPerSecond)} tokens per second come in`;
}

export function tokens(count: number): string {
  const whole = Math.floor(count);
  return whole === 1 ? "1 token" : `${amount(whole)} tokens`;
}

/** About how long, in the unit in which one would say it. */
export function about(ms: number): string {
  if (ms < 1_000) return "less than a second";
  const seconds = Math.round(ms / 1_000);
  if (seconds < 120) return `about ${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `about ${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `about ${hours} h` : `about ${Math.round(hours / 24)} days`;
}
