import classes from "./Brand.module.css";

export function Brand() {
  return (
    <span className={classes["brand"]}>
      <img src="/favicon.svg" alt="" width="20" height="20" />
      Shardwright
    </span>
  );
}
