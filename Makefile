# `make run` shows the product, `make test` proves it. `make` alone lists the rest.

PG ?= 15
PG_CONFIG ?= pg_config
N ?= 200

.PHONY: help setup run test quick golden extension schema docs drivers pgbouncer clients pgspot licences upgrades citus soak fuzz-sql allocations asan histories copy-soak copy-peers mutations cold bench bench-growth bench-bulk bench-indexes bench-model bench-gateway bench-copy bench-citus stress packages test-packages images test-images test-start install clean

help:
	@echo 'make run               build, start a throwaway PostgreSQL, load data and take the tour'
	@echo 'make quick             what can be known without PostgreSQL: formatting, imports, lints, unit tests (less than a minute)'
	@echo 'make test              formatting, lints and every test; ONLY="lints golden" takes these steps of'
	@echo '                       format architecture lints model extension golden isolation statements system gateway emulator copy sdk docs'
	@echo 'make golden            only the golden SQL tests; TEST=merge takes one file, ACCEPT=1 takes the results as the expected ones'
	@echo 'make extension         only the tests of src/tests.rs; TEST=hostile takes those whose name contains it'
	@echo 'make schema ACCEPT=1   takes the SQL objects that the code makes as those of sql/install.sql'
	@echo 'make docs              only the documentation; ACCEPT=1 writes the outputs into the pages, PAGE=start takes one page'
	@echo 'make drivers           the programs of docs/guide/drivers.md, with drivers from their registries'
	@echo 'make pgbouncer         the SDKs and these programs behind PgBouncer in transaction mode; PGBOUNCER=/path/to/pgbouncer'
	@echo 'make clients           unmodified clients of the Table service from their registries against the gateway, and their table in'
	@echo '                       docs/guide/gateway.md; CLIENT=python/azure-storage takes one program of tests/clients'
	@echo 'make pgspot            looks for what other roles could do to the install and upgrade scripts'
	@echo 'make licences          licences of the dependencies, and where they come from (builds cargo-deny, if it is not there)'
	@echo 'make upgrades          from released versions, which it builds from the history; PG=18 also tries pg_upgrade from 15'
	@echo 'make citus CITUS_SOURCE=/path/to/citus-14.0.1.tar.gz'
	@echo '                       tables on a Citus cluster, which it builds; SUITES="golden faults" takes these suites of tests/citus/run.sh,'
	@echo '                       and HISTORIES=50 KILLS=20 as many seeds and kills'
	@echo 'make soak N=200        many seeds of the random tests, and crashes'
	@echo 'make fuzz-sql N=200    many seeds of random statements on tables of all shapes; SEED=7 runs one again'
	@echo 'make allocations       allocations fail one by one, in every function (hours); N=50 takes so many of each call'
	@echo 'make asan              the extension in a PostgreSQL with assertions and nervous caches, which it builds, and under valgrind (hours)'
	@echo 'make histories N=100   many seeds of the histories of clients while servers are killed; SEED=7 runs one again'
	@echo 'make copy-soak N=100   many seeds of the copies of tables: killed at random moments, over bad connections, between all kinds of places'
	@echo 'make copy-peers        copies to and from azurite, an emulator, which npm fetches'
	@echo 'make mutations         checks that the tests notice when a safeguard is taken out'
	@echo 'make cold              `make run` and tests on bare Debian systems (root; hours); ARGS=--check only what set-up finds missing'
	@echo 'make bench             beside hand-written SQL, with targets, and the gateway beside azurite (15 minutes)'
	@echo 'make bench-gateway     only the gateway, for longer; bench-model: only the model'
	@echo 'make bench-copy        copies of a million entities, beside COPY of psql, and over REST'
	@echo 'make bench-citus CITUS_SOURCE=/path/to/citus-14.0.1.tar.gz'
	@echo '                       distributed tables on a cluster of three servers, beside a plain server'
	@echo 'make bench-bulk        work by filter on 3 million entities, beside batches and hand-written SQL'
	@echo 'make bench-growth      small tables beside large ones, and memory'
	@echo 'make bench-indexes     the same queries with property indexes and without, where they gain nothing from them; COUNTED=1'
	@echo '                       compares instructions instead of time, which takes an hour and needs valgrind'
	@echo 'make stress            one partition under load; ARGS="--mix get=90,insert=10 --clients 8", ARGS=--help lists more'
	@echo 'make setup             only provide what is missing to build and test; POSTGRES_SOURCE=/path/to/postgresql-16.10.tar.bz2 builds'
	@echo '                       the PostgreSQL of PG from this source, if Debian does not have it'
	@echo 'make packages          Debian packages of the last commit, in target/packages'
	@echo 'make test-packages     installs, uses, upgrades and purges them in a bare Debian system (root); RELEASE=trixie takes another than yours'
	@echo 'make images            container images of the emulator, and of PostgreSQL with the gateway, made of the packages (root)'
	@echo 'make test-images       loads them into a Docker engine of their own and uses them (root; needs docker.io)'
	@echo 'make test-start        what the images start, without an engine, and what other users and containers can reach of it (root)'
	@echo 'make install PG_CONFIG=/path/to/pg_config'
	@echo '                       install the extension into a PostgreSQL server of yours'
	@echo 'make clean             remove what was built here'
	@echo
	@echo 'PG=15|16|17|18 chooses the PostgreSQL major for all but `install` (default: 15).'

setup:
	@POSTGRES_SOURCE="$(POSTGRES_SOURCE)" pgrx-config/setup.sh $(PG)

run:
	@PG=$(PG) tour/run.sh

# A compiler and a linker come first.
xtask = @pgrx-config/setup.sh rust && cargo xtask --pg $(PG)
files = $(foreach file,$(TEST),--file $(file))
accept = $(if $(ACCEPT),--accept)
seeds = $(if $(filter-out file,$(origin N)),--seeds $(N)) $(if $(SEED),--seed $(SEED))

test:
	$(xtask) test $(ONLY) $(files) $(accept) $(if $(PAGE),--page $(PAGE))

quick:
	$(xtask) quick

golden:
	$(xtask) test golden isolation $(files) $(accept)

extension:
	$(xtask) test extension $(files)

schema:
	$(xtask) schema $(accept)

docs:
	$(xtask) test docs $(accept) $(if $(PAGE),--page $(PAGE))

drivers:
	$(xtask) drivers

pgbouncer:
	$(xtask) pgbouncer $(if $(PGBOUNCER),--program $(PGBOUNCER))

clients:
	$(xtask) clients $(CLIENT) $(accept)

upgrades:
	$(xtask) upgrades $(accept)

citus:
	$(xtask) citus --source "$(CITUS_SOURCE)" $(SUITES) $(files) $(accept) $(if $(HISTORIES),--seeds $(HISTORIES)) $(if $(KILLS),--kills $(KILLS))

test-start:
	$(xtask) containers

pgspot:
	$(xtask) pgspot

licences:
	$(xtask) licences

soak:
	$(xtask) soak $(seeds)

fuzz-sql:
	$(xtask) fuzz-sql $(seeds)

allocations:
	$(xtask) allocations $(if $(filter-out file,$(origin N)),--points $(N))

asan:
	$(xtask) asan $(files)

histories:
	$(xtask) histories $(seeds)

copy-soak:
	$(xtask) copy-soak $(seeds)

copy-peers:
	$(xtask) copy-peers $(seeds)

mutations:
	@tests/mutations.sh

cold:
	@tests/cold.sh $(ARGS)

bench-gateway:
	@benches/gateway.sh

bench:
	@PG=$(PG) benches/run.sh compare $(ARGS)
	@[ -n "$(ARGS)" ] || PG=$(PG) SECONDS_EACH=2 CONNECTIONS=1,16 benches/gateway.sh

bench-copy:
	@benches/copy.sh

bench-citus:
	@PG=$(if $(filter 15,$(PG)),18,$(PG)) benches/citus.sh "$(CITUS_SOURCE)"

bench-bulk:
	@PG=$(PG) benches/run.sh bulk $(ARGS)

bench-growth:
	@PG=$(PG) benches/run.sh growth $(ARGS)

bench-indexes:
	@PG=$(PG) benches/run.sh indexes $(ARGS)

bench-model:
	@PG=$(PG) benches/run.sh model $(ARGS)

stress:
	@PG=$(PG) benches/run.sh stress $(ARGS)

packages:
	@packaging/build.sh

test-packages:
	@packaging/test.sh $(RELEASE)

images:
	@packaging/image.sh $(RELEASE)

test-images:
	@packaging/test_images.sh

install:
	@pgrx-config/install.sh "$(PG_CONFIG)"

clean:
	cargo clean
