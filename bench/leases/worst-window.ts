/** How far admissions exceed a limit in the worst of all time windows. */

/** When a request was admitted: at some time from `from` to `to`, in milliseconds. */
export interface Admission {
  from: number;
  to: number;
}

export interface Limit {
  rate: number;
  burst: number;
}

/**
 * The largest admitted ÷ (burst + rate × time) of all windows that start and end with an admission. A window counts only
 * admissions that were certainly made within it, so a value above 1 is an excess.
 */
export function worstWindow(admissions: Admission[], { rate, burst }: Limit): number {
  const byEnd = [...admissions].sort((a, b) => a.to - b.to);
  let worst = 0;
  for (const { from: start } of admissions) {
    let within = 0;
    for (const { from, to } of byEnd) {
      if (from < start) continue;
      within++;
      worst = Math.max(worst, within / (burst + (rate * (to - start)) / 1000));
    }
  }
  return worst;
}
