/** Written by `build/main.ts`. The same path from `src/store` and from `dist/store`; types are checked before it exists. */
declare module "*/lua/redis/library.js" {
  export const source: string;
}
