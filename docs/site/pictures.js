// Pictures follow the theme that a reader chooses. Without this they follow the system's.
{
  const sources = document.querySelectorAll("picture > source");
  const follow = () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    for (const source of sources) source.media = dark ? "all" : "not all";
  };
  follow();
  new MutationObserver(follow).observe(document.documentElement, { attributeFilter: ["class"] });
}
