# The few commands that everybody types. Everything else is a task of `cargo xtask`.

PG ?= 15
PG_CONFIG ?= pg_config

.PHONY: help setup run quick test bench install emulator packages test-packages site clean

help:
	@echo 'make run        build, start a throwaway PostgreSQL, load data and take the tour'
	@echo 'make quick      what can be known without PostgreSQL: formatting, imports, lints, unit tests (less than a minute)'
	@echo 'make test       formatting, lints and every test (30 minutes); ONLY="golden docs" takes these steps, TEST="merge" these files,'
	@echo '                ACCEPT=1 their results as the expected ones'
	@echo 'make bench      speed beside hand-written SQL, and of the gateway beside azurite (15 minutes)'
	@echo 'make install PG_CONFIG=/path/to/pg_config'
	@echo '                install the extension into a PostgreSQL server of yours'
	@echo 'make emulator   the emulator of the last commit for pip and npm, in target/packages (10 minutes the first time)'
	@echo 'make packages   the same, and Debian packages, for each PostgreSQL that has its headers here (20 minutes the first time)'
	@echo 'make test-packages'
	@echo '                use these packages in bare systems (root; 20 minutes)'
	@echo 'make site       the documents as a site with a search, in target/site/html (seconds)'
	@echo 'make setup      only provide what is missing to build and test; POSTGRES_SOURCE=/path/to/postgresql-16.10.tar.bz2 builds'
	@echo '                the PostgreSQL of PG from this source, if Debian does not have it'
	@echo 'make clean      remove what was built here'
	@echo
	@echo 'PG=15|16|17|18|19 chooses the PostgreSQL major for all but `install` (default: 15).'
	@echo '`cargo xtask --help` lists everything else.'

# A compiler and a linker come first. Cargo need not be on the path.
xtask = @pgrx-config/setup.sh rust && PATH="$$PATH:$${CARGO_HOME:-$$HOME/.cargo}/bin" cargo xtask --pg $(PG)

setup:
	@POSTGRES_SOURCE="$(POSTGRES_SOURCE)" pgrx-config/setup.sh $(PG)

run:
	@PG=$(PG) tour/run.sh

quick:
	$(xtask) quick

test:
	$(xtask) test $(ONLY) $(foreach file,$(TEST),--file $(file)) $(if $(ACCEPT),--accept)

bench:
	$(xtask) bench

install:
	@pgrx-config/install.sh "$(PG_CONFIG)"

emulator:
	@packaging/build.sh emulator

packages:
	@packaging/build.sh

test-packages:
	$(xtask) test-packages

site:
	$(xtask) test site

clean:
	cargo clean
