//! The pictures of the guide that show a shape: boxes, arrows and words, which can be read in light and in dark.
//!
//! A test compares `docs/guide/pictures` with them; with `ACCEPT=1` it draws them again.

use std::fmt::Write as _;

/// A picture under its name, as SVG.
pub type Drawn = (&'static str, String);

struct Picture {
    title: &'static str,
    description: &'static str,
    width: u32,
    height: u32,
    parts: String,
}

impl Picture {
    fn new(title: &'static str, description: &'static str, width: u32, height: u32) -> Picture {
        let parts = String::new();
        Picture {
            title,
            description,
            width,
            height,
            parts,
        }
    }

    fn part(&mut self, part: &str) {
        self.parts.push_str("  ");
        self.parts.push_str(part);
        self.parts.push('\n');
    }

    /// A box of a class, with a name in its middle or, if it has room for more, at its top.
    fn rect(&mut self, class: &str, [x, y, width, height]: [u32; 4], name: &str) {
        self.part(&format!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>"#
        ));
        let base = if height > 60 { y + 22 } else { y + height / 2 + 5 };
        let class = if height > 60 { "name" } else { "word" };
        self.text(class, x + width / 2, base, name);
    }

    fn text(&mut self, class: &str, x: u32, y: u32, words: &str) {
        if !words.is_empty() {
            self.part(&format!(r#"<text class="{class}" x="{x}" y="{y}">{words}</text>"#));
        }
    }

    /// Arrows of a class along paths.
    fn arrows(&mut self, class: &str, paths: &[&str]) {
        for path in paths {
            self.part(&format!(r#"<path class="{class}" d="{path}"/>"#));
        }
    }

    fn svg(&self) -> String {
        let Picture {
            title,
            description,
            width,
            height,
            parts,
        } = self;
        let mut svg = String::new();
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="t d">"#
        )
        .unwrap();
        writeln!(svg, r#"  <title id="t">{title}</title>"#).unwrap();
        writeln!(svg, r#"  <desc id="d">{description}</desc>"#).unwrap();
        svg + STYLE + parts + "</svg>\n"
    }
}

const STYLE: &str = r##"  <style>
    text { font: 14px system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif; fill: #1f2328; text-anchor: middle; }
    .name { font-weight: 600; }
    .small { font-size: 12px; fill: #656d76; }
    .left { text-anchor: start; }
    .box { fill: none; stroke: #656d76; stroke-width: 1.5; }
    .ours { fill: #2f81f7; fill-opacity: 0.14; stroke: #2f81f7; stroke-width: 1.5; }
    .used { fill: #2f81f7; fill-opacity: 0.42; stroke: #2f81f7; stroke-width: 1.5; }
    .arrow, .later { stroke: #656d76; stroke-width: 1.5; fill: none; marker-end: url(#head); }
    .later, .moment { stroke-dasharray: 5 4; }
    .moment { stroke: #cf222e; stroke-width: 1.5; }
    #head path { fill: #656d76; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .small { fill: #9198a1; }
      .box, .arrow, .later { stroke: #9198a1; }
      .moment { stroke: #ff7b72; }
      #head path { fill: #9198a1; }
    }
  </style>
  <defs>
    <marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z"/></marker>
  </defs>
"##;

/// All pictures.
pub fn all() -> Vec<Drawn> {
    vec![
        ("archive", archive().svg()),
        ("change-feed", change_feed().svg()),
        ("scale-out", scale_out().svg()),
        ("standbys", standbys().svg()),
    ]
}

fn archive() -> Picture {
    let mut picture = Picture::new(
        "The parts of an archive",
        "Along the time: bases of two tables, each with all entities of a table at one position of the log. Below them segments with the changes of all tables in the order \
         of commits; the last one grows and ends with a mark. A moment needs the last base of each table before it and the segments between the base and the moment. The \
         manifest names all files, tables and gaps.",
        820,
        330,
    );
    picture.rect("box", [10, 40, 120, 170], "PostgreSQL");
    picture.text("word", 70, 100, "tables");
    picture.text("word", 70, 170, "change feed");
    picture.arrows("arrow", &["M100 95H196", "M113 181H196", "M200 222H800"]);
    picture.text(
        "small left",
        204,
        30,
        "bases: all entities of a table at one position of the log",
    );
    for (class, place, table) in [
        ("ours", [200, 44, 110, 34], "Orders"),
        ("used", [420, 44, 110, 34], "Orders"),
        ("used", [200, 90, 110, 34], "Others"),
    ] {
        picture.rect(class, place, table);
    }
    picture.text(
        "small left",
        204,
        156,
        "segments: the changes of all tables, in the order of commits",
    );
    for (class, left, width, number) in [
        ("used", 200, 170, "1"),
        ("used", 370, 190, "2"),
        ("ours", 560, 170, "3"),
    ] {
        picture.rect(class, [left, 164, width, 34], number);
    }
    picture.text("small left", 740, 186, "its mark");
    picture.arrows("moment", &["M590 40V212"]);
    picture.text("small left", 590, 30, "a moment");
    picture.text("small", 778, 214, "time");
    picture.text(
        "small left",
        204,
        244,
        "The moment needs the dark files, and the third segment up to the moment.",
    );
    picture.rect("box", [200, 262, 530, 62], "manifest");
    picture.text(
        "small",
        465,
        310,
        "names each file with its length and digest, the tables with their names, and the gaps",
    );
    picture
}

fn change_feed() -> Picture {
    let mut picture = Picture::new(
        "A change feed",
        "Writers change tables. PostgreSQL writes each change into its log, in the order of commits. A reader gets the changes by query_changes, applies them to its \
         target, and confirms the last position. The log before that position may go.",
        820,
        290,
    );
    for (row, words) in ["SDKs", "SQL functions", "UPDATE, COPY"].into_iter().enumerate() {
        let y = 40 + 44 * u32::try_from(row).unwrap();
        picture.rect("box", [10, y, 120, 34], words);
        picture.arrows("arrow", &[&format!("M130 {}H196", y + 17)]);
    }
    picture.rect("box", [160, 10, 430, 270], "PostgreSQL");
    picture.rect("ours", [200, 40, 350, 122], "tables");
    picture.rect("box", [220, 80, 150, 34], "Orders");
    picture.rect("box", [380, 80, 150, 34], "Outbox");
    picture.text("small", 375, 146, "a write is stored once, and logged as always");
    picture.arrows("arrow", &["M375 162V194"]);
    picture.text("small left", 384, 184, "the log, in the order of commits");
    for (column, (class, words)) in [
        ("box", "insert"),
        ("box", "insert"),
        ("used", "update"),
        ("used", "delete"),
    ]
    .into_iter()
    .enumerate()
    {
        picture.rect(class, [200 + 88 * u32::try_from(column).unwrap(), 198, 84, 34], words);
    }
    picture.text("small", 286, 262, "confirmed: may go");
    picture.text("small", 462, 262, "not confirmed: is kept");
    picture.rect("ours", [640, 120, 160, 56], "reader");
    picture.arrows("arrow", &["M552 206C610 206 600 160 636 156"]);
    picture.arrows("later", &["M760 176C760 262 640 250 556 222"]);
    picture.text("small", 676, 198, "query_changes");
    picture.text("small", 700, 262, "confirm_changes");
    picture.arrows("arrow", &["M720 120V84"]);
    picture.rect("box", [640, 40, 160, 44], "cache, index, view");
    picture
}

fn scale_out() -> Picture {
    let mut picture = Picture::new(
        "Scale out",
        "Clients call any gateway. A gateway has the map of partitions: it sends a call on one partition straight to the server that has its shard. The coordinator has the \
         definitions. A query over all partitions goes to all shards.",
        820,
        330,
    );
    picture.rect("box", [330, 10, 160, 36], "clients");
    picture.rect("ours", [150, 86, 220, 52], "gateway, with the map");
    picture.rect("ours", [450, 86, 220, 52], "gateway, with the map");
    picture.arrows("arrow", &["M380 46L280 82", "M440 46L540 82"]);
    let servers = [
        (10, "coordinator", "definitions, shards 1, 4"),
        (290, "worker 1", "shards 2, 5"),
        (570, "worker 2", "shards 3, 6"),
    ];
    for (x, name, words) in servers {
        picture.rect("box", [x, 196, 240, 88], name);
        picture.text("small", x + 120, 240, words);
    }
    for (x, first) in [(130, 1), (410, 2), (690, 3)] {
        for (place, shard) in [first, first + 3].into_iter().enumerate() {
            let class = if shard == 5 { "used" } else { "ours" };
            let left = x - 52 + 56 * u32::try_from(place).unwrap();
            picture.rect(class, [left, 248, 48, 28], &shard.to_string());
        }
    }
    picture.arrows("arrow", &["M290 138L410 192", "M560 138L430 192"]);
    picture.text("small left", 356, 158, "a call on one partition");
    picture.arrows("later", &["M200 138L130 192", "M620 138L690 192"]);
    picture.text("small", 90, 172, "definitions");
    picture.text("small left", 668, 172, "other partitions");
    picture.arrows(
        "later",
        &["M130 284C130 316 690 316 690 288", "M130 284C140 304 380 304 408 288"],
    );
    picture.text("small", 410, 324, "a query over all partitions: a task for each shard");
    picture
}

fn standbys() -> Picture {
    let mut picture = Picture::new(
        "A primary and standbys",
        "The gateway sends reads and writes of the primary endpoint to the primary, and reads of the secondary endpoint to a standby. The primary replicates its log to the \
         standbys. After a promotion the gateway follows the new primary.",
        820,
        262,
    );
    picture.rect("box", [10, 40, 200, 40], "the primary endpoint");
    picture.rect("box", [10, 190, 200, 40], "the secondary endpoint");
    picture.rect("ours", [290, 30, 150, 210], "gateway");
    picture.arrows("arrow", &["M210 60H286", "M210 210H286"]);
    picture.text("small", 365, 120, "asks all hosts");
    picture.text("small", 365, 138, "once a second");
    picture.rect("used", [580, 30, 220, 66], "db1: the primary");
    picture.text("small", 690, 80, "reads and writes");
    picture.rect("ours", [580, 176, 220, 66], "db2: a standby");
    picture.text("small", 690, 226, "reads, up to LastSyncTime");
    picture.arrows("arrow", &["M440 60H576", "M440 210H576", "M690 96V172"]);
    picture.text("small left", 700, 138, "replication");
    picture.arrows("later", &["M440 100L576 182"]);
    picture.text("small", 508, 50, "reads, writes");
    picture.text("small", 508, 230, "reads");
    picture.text("small left", 520, 130, "after a promotion");
    picture
}
