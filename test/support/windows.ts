/** Checks admissions against burst + rate × time, for every pair of instants. */

/** Tokens taken by an admission, or refunded if negative. */
export interface Taken {
  at: number;
  tokens: number;
}

/** Tokens that may be spent on top, in windows that contain `at` and begin after `since`. */
export interface Extra extends Taken {
  since?: number;
}

/** A time in which the limits did not change. */
export interface Stretch {
  from: number;
  to: number;
  rate: number;
  burst: number;
}

export interface Excess {
  from: number;
  to: number;
  taken: number;
  allowed: number;
}

/** The window of the stretch that exceeds its limit most, or undefined if none does. */
export function worstWindow(taken: Taken[], stretch: Stretch, extras: Extra[] = []): Excess | undefined {
  const { from, to, rate, burst } = stretch;
  const inside = taken.filter(({ at }) => at >= from && at <= to).sort((a, b) => a.at - b.at);
  let worst: Excess | undefined;
  inside.forEach((first, i) => {
    let sum = 0;
    for (const { at, tokens } of inside.slice(i)) {
      sum += tokens;
      let allowed = burst + (rate * (at - first.at)) / 1000;
      for (const extra of extras) {
        const { since = Number.NEGATIVE_INFINITY } = extra;
        if (extra.at >= first.at && extra.at <= at && first.at > since) allowed += extra.tokens;
      }
      const excess = sum - allowed;
      if (excess > 1e-6 && (worst === undefined || excess > worst.taken - worst.allowed)) {
        worst = { from: first.at, to: at, taken: sum, allowed };
      }
    }
  });
  return worst;
}
