# Turns apt's package index (the output of `apt-cache dumpavail`) into entities, one a line: partition key, row key and the
# properties as JSON, with ^B between them. Packages differ in what they tell, so the entities differ in their properties.

BEGIN {
  RS = ""
  FS = "\n"
  for (i = 1; i < 32; i++) control[sprintf("%c", i)] = sprintf("\\u%04x", i)
}

function escape(text, c) {
  gsub(/\\/, "&&", text)
  gsub(/"/, "\\\"", text)
  gsub(/\t/, "\\t", text)
  if (text ~ /[\001-\037]/) for (c in control) gsub(c, control[c], text)
  return text
}

function string(name, field) {
  if (field in value) json = json ",\"" name "\":\"" escape(value[field]) "\""
}

# What JSON has no type for is annotated: a JSON number that is written as an integer means Edm.Int32.
function int64(name, number) {
  json = json ",\"" name "@odata.type\":\"Edm.Int64\",\"" name "\":\"" number "\""
}

{
  for (field in value) delete value[field]
  for (i = 1; i <= NF; i++) {
    if ($i ~ /^[ \t]/) {
      value[field] = value[field] $i
    } else if ((colon = index($i, ": ")) > 0) {
      field = substr($i, 1, colon - 1)
      value[field] = substr($i, colon + 2)
    }
  }
  section = value["Section"]
  package = value["Package"]
  gsub(/\//, "-", section) # a key must not contain a slash
  if (section == "" || package == "" || (section, package) in seen) next
  seen[section, package]

  json = ""
  string("Version", "Version")
  string("Architecture", "Architecture")
  string("Maintainer", "Maintainer")
  string("Description", "Description")
  string("Homepage", "Homepage")
  string("Source", "Source")
  string("Tags", "Tag")
  if (value["Essential"] == "yes") json = json ",\"Essential\":true"
  size = value["Size"] + 0
  installed = value["Installed-Size"] + 0
  if (size > 0 && size < 2147483648) json = json ",\"Size\":" value["Size"]
  if (installed > 0) int64("InstalledSize", sprintf("%.0f", installed * 1024))
  if (size > 0 && installed > 0) json = json ",\"Compression\":" sprintf("%.4f", size / installed / 1024)
  if ("Depends" in value) json = json ",\"Dependencies\":" split(value["Depends"], unused, ",")
  printf "%s\002%s\002{%s}\n", section, package, substr(json, 2)
}
