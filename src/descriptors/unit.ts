/** Time units of limits. */

export const SECONDS = {
  second: 1,
  minute: 60,
  hour: 3_600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
  year: 31_536_000,
} as const;

export type Unit = keyof typeof SECONDS;

export const units = Object.keys(SECONDS) as [Unit, ...Unit[]];
