/** Sections of the configuration in the spelling of the code: `idle_ms` becomes `idleMs`. */

type CamelCaseName<Name> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCaseName<Rest>>}`
  : Name;

export type CamelCase<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { [Name in keyof T as CamelCaseName<Name & string>]: CamelCase<T[Name]> }
    : T;

/** Only for sections in which all names are options, because free names must stay as they are. */
export function camelCase<T>(section: T): CamelCase<T> {
  if (typeof section !== "object" || section === null || Array.isArray(section)) return section as CamelCase<T>;
  const renamed = Object.entries(section).map(([name, value]) => [
    name.replace(/_[a-z]/g, ([, letter = ""]) => letter.toUpperCase()),
    camelCase(value),
  ]);
  return Object.fromEntries(renamed) as CamelCase<T>;
}
