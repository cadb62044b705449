BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE modules (
	run_id TEXT NOT NULL, 
	model TEXT NOT NULL, 
	module_ops BIGINT NOT NULL, 
	structural BIGINT NOT NULL, 
	CONSTRAINT pk_modules PRIMARY KEY (run_id, model), 
	CONSTRAINT fk_modules_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
INSERT INTO "modules" VALUES('20261120-120000-demo','demo',38,7);
INSERT INTO "modules" VALUES('night01','a',3,0);
INSERT INTO "modules" VALUES('night01','b',1,0);
INSERT INTO "modules" VALUES('night02','a',3,0);
INSERT INTO "modules" VALUES('night02','b',1,0);
CREATE TABLE op_tests (
	schema_version BIGINT NOT NULL, 
	run_id TEXT NOT NULL, 
	op_id TEXT NOT NULL, 
	attempt BIGINT NOT NULL, 
	test_case_name TEXT NOT NULL, 
	full_test_name TEXT NOT NULL, 
	filepath TEXT NOT NULL, 
	test_start_ts DATETIME NOT NULL, 
	test_end_ts DATETIME NOT NULL, 
	success BOOLEAN NOT NULL, 
	skipped BOOLEAN NOT NULL, 
	error_message TEXT, 
	config JSON NOT NULL, 
	frontend TEXT NOT NULL, 
	model_name TEXT NOT NULL, 
	op_kind TEXT NOT NULL, 
	op_name TEXT NOT NULL, 
	framework_op_name TEXT NOT NULL, 
	inputs JSON NOT NULL, 
	outputs JSON NOT NULL, 
	op_params JSON NOT NULL, 
	github_job_id BIGINT, 
	status TEXT NOT NULL, 
	card_type TEXT NOT NULL, 
	backend TEXT NOT NULL, 
	stage_reached TEXT NOT NULL, 
	failed_stage TEXT, 
	stages JSON NOT NULL, 
	error_signature TEXT, 
	artifact TEXT, 
	crash_kind TEXT, 
	pcc DOUBLE, 
	uses BIGINT NOT NULL, 
	locations JSON NOT NULL, 
	models JSON NOT NULL, 
	provenance TEXT NOT NULL, 
	ran_on TEXT NOT NULL, 
	expected TEXT NOT NULL, 
	flaky BOOLEAN NOT NULL, 
	cycles BIGINT, 
	device_ns DOUBLE, 
	l1_peak_bytes BIGINT, 
	dram_peak_bytes BIGINT, 
	arch TEXT NOT NULL, 
	data_format TEXT NOT NULL, 
	math_fidelity TEXT NOT NULL, 
	pipeline TEXT NOT NULL, 
	repro TEXT NOT NULL, 
	seconds DOUBLE NOT NULL, 
	is_failure BOOLEAN NOT NULL, cached_from TEXT DEFAULT '' NOT NULL, stability TEXT DEFAULT '' NOT NULL, outcomes JSON DEFAULT '[]' NOT NULL, 
	CONSTRAINT pk_op_tests PRIMARY KEY (run_id, op_id, backend), 
	CONSTRAINT fk_op_tests_ops FOREIGN KEY(op_id) REFERENCES ops (op_id), 
	CONSTRAINT fk_op_tests_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','9e3779b97f4a7c15',1,'stablehlo.add','demo::stablehlo.add[9e3779b97f4a7c15]','','2026-11-20 12:00:00.000000','2026-11-20 12:00:01.000000',1,0,NULL,'{}','','demo','eltwise','stablehlo.add','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'success','sim-n150','reference','compare',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.01}, {"stage": "ttir-to-ttnn", "seconds": 0.02}, {"stage": "ttnn-to-flatbuffer", "seconds": 0.03}, {"stage": "run", "seconds": 0.04}, {"stage": "compare", "seconds": 0.05}]',NULL,NULL,NULL,0.99999,16,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer1 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer2 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer3 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer4 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer5 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer6 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer7 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer8 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer9 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer10 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer11 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer12 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer13 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer14 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)", "layer15 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:0)"]','["demo"]','','simulator','',0,4096,4096.0,NULL,NULL,'n150','','','','pytest --op-by-op --op 9e3779b97f4a7c15 --run-dir ''a run''',1.50000000000000022204e-01,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','3c6ef372fe94f82a',1,'stablehlo.dot_general','demo::stablehlo.dot_general[3c6ef372fe94f82a]','','2026-11-20 12:00:01.000000','2026-11-20 12:00:02.000000',1,0,NULL,'{}','','demo','matmul','stablehlo.dot_general','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'success','sim-n150','reference','compare',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.01}, {"stage": "ttir-to-ttnn", "seconds": 0.02}, {"stage": "ttnn-to-flatbuffer", "seconds": 0.03}, {"stage": "run", "seconds": 0.04}, {"stage": "compare", "seconds": 0.05}]',NULL,NULL,NULL,0.9991,3,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:1)", "layer1 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:1)", "layer2 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:1)"]','["demo"]','','simulator','',0,120000,120000.0,NULL,NULL,'n150','','','','pytest --op-by-op --op 3c6ef372fe94f82a --run-dir ''a run''',1.50000000000000022204e-01,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','daa66d2c7ddf743f',1,'stablehlo.tanh','demo::stablehlo.tanh[daa66d2c7ddf743f]','','2026-11-20 12:00:02.000000','2026-11-20 12:00:03.000000',0,0,'stablehlo.tanh: expected a kernel, got </script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>','{}','','demo','eltwise','stablehlo.tanh','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'golden_failed','sim-n150','reference','run',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.01}, {"stage": "ttir-to-ttnn", "seconds": 0.02}, {"stage": "ttnn-to-flatbuffer", "seconds": 0.03}, {"stage": "run", "seconds": 0.04}]','eltwise-0001','artifacts/daa66d2c7ddf743f/e.txt',NULL,0.42,2,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:2)", "layer1 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:2)"]','["demo"]','','simulator','',0,9000,9000.0,NULL,NULL,'n150','','','','pytest --op-by-op --op daa66d2c7ddf743f --run-dir ''a run''',0.1,1,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','78dde6e5fd29f054',1,'stablehlo.fft','demo::stablehlo.fft[78dde6e5fd29f054]','','2026-11-20 12:00:03.000000','2026-11-20 12:00:04.000000',0,0,'stablehlo.fft: expected a kernel, got </script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>','{}','','demo','fft','stablehlo.fft','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'compile_failed','sim-n150','reference','split','stablehlo-to-ttir','[]','fft-0001','artifacts/78dde6e5fd29f054/e.txt',NULL,NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:3)"]','["demo"]','','none','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 78dde6e5fd29f054 --run-dir ''a run''',0.0,1,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','1715609f7c746c69',1,'stablehlo.sort','demo::stablehlo.sort[1715609f7c746c69]','','2026-11-20 12:00:04.000000','2026-11-20 12:00:05.000000',0,0,'stablehlo.sort: expected a kernel, got </script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>','{}','','demo','sort','stablehlo.sort','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'compile_failed','sim-n150','reference','stablehlo-to-ttir','ttir-to-ttnn','[{"stage": "stablehlo-to-ttir", "seconds": 0.01}]','sort-0001','artifacts/1715609f7c746c69/e.txt',NULL,NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:4)"]','["demo"]','','none','notyet: sorting on the device',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 1715609f7c746c69 --run-dir ''a run''',0.01,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','b54cda58fbbee87e',1,'stablehlo.gather','demo::stablehlo.gather[b54cda58fbbee87e]','','2026-11-20 12:00:05.000000','2026-11-20 12:00:06.000000',0,0,'stablehlo.gather: expected a kernel, got </script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>','{}','','demo','data_movement','stablehlo.gather','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'run_failed','sim-n150','reference','ttnn-to-flatbuffer','run','[{"stage": "stablehlo-to-ttir", "seconds": 0.01}, {"stage": "ttir-to-ttnn", "seconds": 0.02}, {"stage": "ttnn-to-flatbuffer", "seconds": 0.03}]','data_movement-0001','artifacts/b54cda58fbbee87e/e.txt',NULL,NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:5)"]','["demo"]','','none','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op b54cda58fbbee87e --run-dir ''a run''',0.06,1,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','538454127b096493',1,'stablehlo.rng','demo::stablehlo.rng[538454127b096493]','','2026-11-20 12:00:06.000000','2026-11-20 12:00:07.000000',0,0,'stablehlo.rng: expected a kernel, got </script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>','{}','','demo','rng','stablehlo.rng','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'no_golden','sim-n150','reference','run',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.01}, {"stage": "ttir-to-ttnn", "seconds": 0.02}, {"stage": "ttnn-to-flatbuffer", "seconds": 0.03}, {"stage": "run", "seconds": 0.04}]','rng-0001','artifacts/538454127b096493/e.txt',NULL,NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:6)"]','["demo"]','','simulator','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 538454127b096493 --run-dir ''a run''',0.1,1,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','f1bbcdcbfa53e0a8',1,'stablehlo.convolution','demo::stablehlo.convolution[f1bbcdcbfa53e0a8]','','2026-11-20 12:00:07.000000','2026-11-20 12:00:08.000000',0,0,'stablehlo.convolution: expected a kernel, got </script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>','{}','','demo','conv','stablehlo.convolution','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'timeout','sim-n150','reference','ttnn-to-flatbuffer','run','[{"stage": "stablehlo-to-ttir", "seconds": 0.01}, {"stage": "ttir-to-ttnn", "seconds": 0.02}, {"stage": "ttnn-to-flatbuffer", "seconds": 0.03}]','conv-0001','artifacts/f1bbcdcbfa53e0a8/e.txt',NULL,NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:7)"]','["demo"]','','none','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op f1bbcdcbfa53e0a8 --run-dir ''a run''',0.06,1,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','8ff34785799e5cbd',1,'stablehlo.while','demo::stablehlo.while[8ff34785799e5cbd]','','2026-11-20 12:00:08.000000','2026-11-20 12:00:09.000000',0,0,'stablehlo.while: expected a kernel, got </script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>','{}','','demo','control','stablehlo.while','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'crashed','sim-n150','reference','split',NULL,'[]','control-0001','artifacts/8ff34785799e5cbd/e.txt','signal SIGSEGV',NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:8)"]','["demo"]','','none','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 8ff34785799e5cbd --run-dir ''a run''',0.0,1,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','2e2ac13ef8e8d8d2',1,'stablehlo.exponential','demo::stablehlo.exponential[2e2ac13ef8e8d8d2]','','2026-11-20 12:00:09.000000','2026-11-20 12:00:10.000000',0,0,NULL,'{}','','demo','eltwise','stablehlo.exponential','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'stopped','sim-n150','reference','ttir-to-ttnn',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.01}, {"stage": "ttir-to-ttnn", "seconds": 0.02}]',NULL,NULL,NULL,NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:9)"]','["demo"]','','none','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 2e2ac13ef8e8d8d2 --run-dir ''a run''',0.03,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','cc623af8783354e7',1,'stablehlo.log','demo::stablehlo.log[cc623af8783354e7]','','2026-11-20 12:00:10.000000','2026-11-20 12:00:11.000000',0,1,NULL,'{}','','demo','eltwise','stablehlo.log','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'skipped','sim-n150','reference','split',NULL,'[]',NULL,NULL,NULL,NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:10)"]','["demo"]','','none','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op cc623af8783354e7 --run-dir ''a run''',0.0,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','6a99b4b1f77dd0fc',1,'stablehlo.sine','demo::stablehlo.sine[6a99b4b1f77dd0fc]','','2026-11-20 12:00:11.000000','2026-11-20 12:00:12.000000',0,0,NULL,'{}','','demo','eltwise','stablehlo.sine','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'not_run','sim-n150','reference','split',NULL,'[]',NULL,NULL,NULL,NULL,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:11)"]','["demo"]','','none','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 6a99b4b1f77dd0fc --run-dir ''a run''',0.0,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'20261120-120000-demo','08d12e6b76c84d11',1,'stablehlo.floor','demo::stablehlo.floor[08d12e6b76c84d11]','','2026-11-20 12:00:12.000000','2026-11-20 12:00:13.000000',1,0,NULL,'{}','','demo','eltwise','stablehlo.floor','','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{}',NULL,'success','sim-n150','reference','compare',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.01}, {"stage": "ttir-to-ttnn", "seconds": 0.02}, {"stage": "ttnn-to-flatbuffer", "seconds": 0.03}, {"stage": "run", "seconds": 0.04}, {"stage": "compare", "seconds": 0.05}]',NULL,NULL,NULL,1.0,1,'["layer0 (</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>:12)"]','["demo"]','','host','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 08d12e6b76c84d11 --run-dir ''a run''',1.50000000000000022204e-01,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'night01','7e9e5ac30f2216fd',1,'stablehlo.add[7e9e5ac30f2216fd]','a::stablehlo.add[7e9e5ac30f2216fd]','','2026-11-02 02:00:00.000000','2026-11-02 02:00:01.000000',1,0,NULL,'{}','','a','eltwise','stablehlo.add','','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','{}',NULL,'success','sim-n150','reference','compare',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.005}, {"stage": "run", "seconds": 9.0}]',NULL,NULL,NULL,NULL,2,'[]','["a"]','','simulator','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 7e9e5ac30f2216fd --run-dir /runs/night01',9.005,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'night01','dd7a946de80abf41',1,'stablehlo.exp[dd7a946de80abf41]','a::stablehlo.exp[dd7a946de80abf41]','','2026-11-02 02:00:00.000000','2026-11-02 02:00:01.000000',0,0,'it broke','{}','','a','other','stablehlo.exp','','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','{}',NULL,'run_failed','sim-n150','reference','split','stablehlo-to-ttir','[]','0b018c06eedf',NULL,NULL,NULL,2,'[]','["a", "b"]','','none','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op dd7a946de80abf41 --run-dir /runs/night01',0.0,1,'','','[]');
INSERT INTO "op_tests" VALUES(1,'night02','7e9e5ac30f2216fd',1,'stablehlo.add[7e9e5ac30f2216fd]','a::stablehlo.add[7e9e5ac30f2216fd]','','2026-11-03 02:00:00.000000','2026-11-03 02:00:01.000000',1,0,NULL,'{}','','a','eltwise','stablehlo.add','','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','{}',NULL,'success','sim-n150','reference','compare',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.005}, {"stage": "run", "seconds": 9.0}]',NULL,NULL,NULL,NULL,2,'[]','["a"]','','simulator','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op 7e9e5ac30f2216fd --run-dir /runs/night02',9.005,0,'','','[]');
INSERT INTO "op_tests" VALUES(1,'night02','dd7a946de80abf41',1,'stablehlo.exp[dd7a946de80abf41]','a::stablehlo.exp[dd7a946de80abf41]','','2026-11-03 02:00:00.000000','2026-11-03 02:00:01.000000',1,0,NULL,'{}','','a','other','stablehlo.exp','','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','{}',NULL,'success','sim-n150','reference','compare',NULL,'[{"stage": "stablehlo-to-ttir", "seconds": 0.0}, {"stage": "run", "seconds": 9.0}]',NULL,NULL,NULL,NULL,2,'[]','["a", "b"]','','simulator','',0,NULL,NULL,NULL,NULL,'n150','','','','pytest --op-by-op --op dd7a946de80abf41 --run-dir /runs/night02',9.0,0,'','','[]');
CREATE TABLE ops (
	op_id TEXT NOT NULL, 
	op_name TEXT NOT NULL, 
	op_kind TEXT NOT NULL, 
	inputs JSON NOT NULL, 
	outputs JSON NOT NULL, 
	op_params JSON NOT NULL, 
	signature TEXT NOT NULL, 
	unsplittable TEXT NOT NULL, 
	CONSTRAINT pk_ops PRIMARY KEY (op_id)
);
INSERT INTO "ops" VALUES('9e3779b97f4a7c15','stablehlo.add','eltwise','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('3c6ef372fe94f82a','stablehlo.dot_general','matmul','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('daa66d2c7ddf743f','stablehlo.tanh','eltwise','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('78dde6e5fd29f054','stablehlo.fft','fft','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('1715609f7c746c69','stablehlo.sort','sort','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('b54cda58fbbee87e','stablehlo.gather','data_movement','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('538454127b096493','stablehlo.rng','rng','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('f1bbcdcbfa53e0a8','stablehlo.convolution','conv','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('8ff34785799e5cbd','stablehlo.while','control','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('2e2ac13ef8e8d8d2','stablehlo.exponential','eltwise','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('cc623af8783354e7','stablehlo.log','eltwise','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('6a99b4b1f77dd0fc','stablehlo.sine','eltwise','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('08d12e6b76c84d11','stablehlo.floor','eltwise','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}, {"shape": [], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [1, 64], "data_type": "f32", "buffer_type": "DRAM", "layout": "tile", "grid_shape": [8, 8]}]','{"axis": "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"}','f32[1,64] * f32[] -> f32[1,64]','');
INSERT INTO "ops" VALUES('7e9e5ac30f2216fd','stablehlo.add','eltwise','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','{}','f32[8,8] -> f32[8,8]','');
INSERT INTO "ops" VALUES('dd7a946de80abf41','stablehlo.exp','other','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','[{"shape": [8, 8], "data_type": "f32", "buffer_type": null, "layout": null, "grid_shape": null}]','{}','f32[8,8] -> f32[8,8]','');
CREATE TABLE opscope_settings (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "opscope_settings" VALUES('views_digest','4c76eda4548661d1cced7338dec6780c53118fd109ab0254eefd73020264d57f');
INSERT INTO "opscope_settings" VALUES('views','coverage failures ladder ledger newest_ops pass_rate performance');
CREATE TABLE results (
	run_id TEXT NOT NULL, 
	op_id TEXT NOT NULL, 
	backend TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	passed BOOLEAN NOT NULL, 
	pcc DOUBLE, 
	relative_l2 DOUBLE, 
	max_abs DOUBLE, 
	tolerance TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	flags JSON NOT NULL, 
	CONSTRAINT pk_results PRIMARY KEY (run_id, op_id, backend, position), 
	CONSTRAINT fk_results_op_tests FOREIGN KEY(run_id, op_id, backend) REFERENCES op_tests (run_id, op_id, backend) ON DELETE CASCADE
);
INSERT INTO "results" VALUES('20261120-120000-demo','9e3779b97f4a7c15','reference',0,1,0.99999,0.01,NULL,'f32','','[]');
INSERT INTO "results" VALUES('20261120-120000-demo','3c6ef372fe94f82a','reference',0,1,0.9991,0.01,NULL,'f32','','[]');
INSERT INTO "results" VALUES('20261120-120000-demo','daa66d2c7ddf743f','reference',0,0,0.42,0.01,NULL,'f32','','[]');
INSERT INTO "results" VALUES('20261120-120000-demo','538454127b096493','reference',0,0,NULL,0.01,NULL,'f32','','[]');
INSERT INTO "results" VALUES('20261120-120000-demo','08d12e6b76c84d11','reference',0,1,1.0,0.01,NULL,'f32','','[]');
CREATE TABLE runs (
	schema_version BIGINT NOT NULL, 
	run_id TEXT NOT NULL, 
	models JSON NOT NULL, 
	backend TEXT NOT NULL, 
	arch TEXT NOT NULL, 
	started DATETIME NOT NULL, 
	ended DATETIME, 
	outcome TEXT NOT NULL, 
	revision TEXT NOT NULL, 
	dirty BOOLEAN NOT NULL, 
	branch TEXT NOT NULL, 
	backend_revision TEXT NOT NULL, 
	backend_dirty BOOLEAN NOT NULL, 
	ci_job TEXT NOT NULL, 
	ci_url TEXT NOT NULL, 
	host TEXT NOT NULL, 
	cpu TEXT NOT NULL, 
	python TEXT NOT NULL, 
	versions JSON NOT NULL, 
	command_line JSON NOT NULL, 
	options JSON NOT NULL, 
	CONSTRAINT pk_runs PRIMARY KEY (run_id)
);
INSERT INTO "runs" VALUES(1,'20261120-120000-demo','["demo"]','reference','n150','2026-11-20 12:00:00.000000','2026-11-20 12:00:09.000000','complete','0123abc',0,'main','',0,'','','laptop','a CPU','3.11.7','{"jax": "0.10.2"}','["pytest", "--model", "demo", "</script><script>alert(''x'')</script> & \"quoted\" \\0 <b>%s</b>"]','{"seed": 0}');
INSERT INTO "runs" VALUES(1,'night01','["a", "b"]','reference','n150','2026-11-02 02:00:00.000000','2026-11-02 02:05:00.000000','complete','0101010101010101010101010101010101010101',0,'','0101010101010101010101010101010101010101',0,'','','laptop','','3.11','{"jaxlib": "0.10.2"}','[]','{"dtype": "float32", "seed": 0}');
INSERT INTO "runs" VALUES(1,'night02','["a", "b"]','reference','n150','2026-11-03 02:00:00.000000','2026-11-03 02:05:00.000000','complete','0202020202020202020202020202020202020202',0,'','0202020202020202020202020202020202020202',0,'','','laptop','','3.11','{"jaxlib": "0.10.2"}','[]','{"dtype": "float32", "seed": 0}');
CREATE TABLE uses (
	run_id TEXT NOT NULL, 
	op_id TEXT NOT NULL, 
	model TEXT NOT NULL, 
	path TEXT NOT NULL, 
	location TEXT NOT NULL, 
	framework_op TEXT NOT NULL, 
	CONSTRAINT pk_uses PRIMARY KEY (run_id, op_id, model, path), 
	CONSTRAINT fk_uses_ops FOREIGN KEY(op_id) REFERENCES ops (op_id), 
	CONSTRAINT fk_uses_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.1','layer1 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.2','layer2 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.3','layer3 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.4','layer4 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.5','layer5 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.6','layer6 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.7','layer7 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.8','layer8 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.9','layer9 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.10','layer10 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.11','layer11 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.12','layer12 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.13','layer13 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.14','layer14 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','9e3779b97f4a7c15','demo','main/0.15','layer15 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:0)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','3c6ef372fe94f82a','demo','main/1.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:1)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','3c6ef372fe94f82a','demo','main/1.1','layer1 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:1)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','3c6ef372fe94f82a','demo','main/1.2','layer2 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:1)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','daa66d2c7ddf743f','demo','main/2.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:2)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','daa66d2c7ddf743f','demo','main/2.1','layer1 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:2)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','78dde6e5fd29f054','demo','main/3.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:3)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','1715609f7c746c69','demo','main/4.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:4)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','b54cda58fbbee87e','demo','main/5.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:5)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','538454127b096493','demo','main/6.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:6)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','f1bbcdcbfa53e0a8','demo','main/7.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:7)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','8ff34785799e5cbd','demo','main/8.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:8)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','2e2ac13ef8e8d8d2','demo','main/9.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:9)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','cc623af8783354e7','demo','main/10.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:10)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','6a99b4b1f77dd0fc','demo','main/11.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:11)','');
INSERT INTO "uses" VALUES('20261120-120000-demo','08d12e6b76c84d11','demo','main/12.0','layer0 (</script><script>alert(''x'')</script> & "quoted" \0 <b>%s</b>:12)','');
INSERT INTO "uses" VALUES('night01','7e9e5ac30f2216fd','a','main/add.0','','');
INSERT INTO "uses" VALUES('night01','7e9e5ac30f2216fd','a','main/add.1','','');
INSERT INTO "uses" VALUES('night01','dd7a946de80abf41','a','main/exp.0','','');
INSERT INTO "uses" VALUES('night01','dd7a946de80abf41','b','main/exp.0','','');
INSERT INTO "uses" VALUES('night02','7e9e5ac30f2216fd','a','main/add.0','','');
INSERT INTO "uses" VALUES('night02','7e9e5ac30f2216fd','a','main/add.1','','');
INSERT INTO "uses" VALUES('night02','dd7a946de80abf41','a','main/exp.0','','');
INSERT INTO "uses" VALUES('night02','dd7a946de80abf41','b','main/exp.0','','');
CREATE INDEX ix_ops_op_name ON ops (op_name);
CREATE INDEX ix_op_tests_error_signature ON op_tests (error_signature);
CREATE INDEX ix_op_tests_op_id ON op_tests (op_id);
CREATE INDEX ix_op_tests_status ON op_tests (status);
CREATE INDEX ix_uses_op_id ON uses (op_id);
CREATE VIEW coverage AS
-- Per model and kind of op: how many ops were attempted, and how many of them came out right in each place of execution.
WITH places AS (
    SELECT run_id, op_id, model, COUNT(*) AS uses
    FROM uses
    GROUP BY run_id, op_id, model
), attempted AS (
    SELECT t.run_id, t.backend, t.arch, t.card_type, p.model, t.op_kind, COUNT(*) AS ops, SUM(p.uses) AS uses
    FROM op_tests t
    JOIN places p ON p.run_id = t.run_id AND p.op_id = t.op_id
    WHERE t.status NOT IN ('stopped', 'skipped', 'not_run')
    GROUP BY t.run_id, t.backend, t.arch, t.card_type, p.model, t.op_kind
), passed AS (
    SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, p.model, t.op_kind,
           COUNT(*) AS ops, SUM(p.uses) AS uses
    FROM op_tests t
    JOIN places p ON p.run_id = t.run_id AND p.op_id = t.op_id
    WHERE t.status = 'success'
    GROUP BY t.run_id, t.backend, t.arch, t.card_type, t.ran_on, p.model, t.op_kind
)
SELECT a.run_id, a.backend, a.arch, a.card_type, COALESCE(p.ran_on, 'none') AS ran_on, a.model, a.op_kind,
       a.ops AS attempted_ops, COALESCE(p.ops, 0) AS passed_ops,
       1.0 * COALESCE(p.ops, 0) / a.ops AS coverage,
       a.uses AS attempted_uses, COALESCE(p.uses, 0) AS passed_uses
FROM attempted a
LEFT JOIN passed p
  ON p.run_id = a.run_id AND p.backend = a.backend AND p.arch = a.arch AND p.card_type = a.card_type
 AND p.model = a.model AND p.op_kind = a.op_kind;
CREATE VIEW failures AS
-- Ops that went wrong, with the reason and the line that runs just that op again; `expected` names the limitation, if any.
SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, t.op_id, t.op_name, t.op_kind, o.signature, t.model_name,
       t.status, t.stage_reached, t.failed_stage, t.error_signature, t.error_message, t.crash_kind, t.pcc, t.uses,
       t.expected, t.is_failure, t.flaky, t.artifact, t.repro
FROM op_tests t
JOIN ops o ON o.op_id = t.op_id
WHERE t.is_failure OR t.expected <> '';
CREATE VIEW ladder AS
-- The furthest stage that the ops of each kind passed, in unique ops and in uses.
SELECT run_id, backend, arch, card_type, ran_on, op_kind, stage_reached,
       COUNT(*) AS ops,
       SUM(uses) AS uses
FROM op_tests
GROUP BY run_id, backend, arch, card_type, ran_on, op_kind, stage_reached;
CREATE VIEW ledger AS
-- How the ops of a run ended: one row per status and place of execution; `uses` weighs each op by how often it stands
-- in the models.
SELECT run_id, backend, arch, card_type, ran_on, status,
       CASE WHEN expected <> '' AND NOT is_failure THEN 1 ELSE 0 END AS known_limitation,
       COUNT(*) AS ops,
       SUM(CASE WHEN flaky THEN 1 ELSE 0 END) AS flaky,
       SUM(uses) AS uses
FROM op_tests
GROUP BY run_id, backend, arch, card_type, ran_on, status, CASE WHEN expected <> '' AND NOT is_failure THEN 1 ELSE 0 END;
CREATE VIEW newest_ops AS
-- Where each model stands: the ops of its newest run on each backend and board, one row per model and op. `uses` counts
-- its places in that model; an op that could not be split off has the status `unsplittable`.
WITH ranked AS (
    SELECT r.run_id, r.backend, r.arch, r.started, m.model,
           ROW_NUMBER() OVER (PARTITION BY r.backend, r.arch, m.model ORDER BY r.started DESC, r.run_id DESC) AS age
    FROM runs r
    JOIN modules m ON m.run_id = r.run_id
    WHERE r.outcome <> 'running'
), placed AS (
    SELECT n.run_id, n.backend, n.arch, n.started, n.model, u.op_id, COUNT(*) AS uses
    FROM ranked n
    JOIN uses u ON u.run_id = n.run_id AND u.model = n.model
    WHERE n.age = 1
    GROUP BY n.run_id, n.backend, n.arch, n.started, n.model, u.op_id
)
SELECT p.run_id, p.backend, p.arch, p.started, p.model, p.op_id, o.op_name,
       COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, o.signature, p.uses,
       COALESCE(t.status, 'unsplittable') AS status,
       COALESCE(t.stage_reached, 'split') AS stage_reached,
       COALESCE(t.failed_stage, CASE WHEN t.op_id IS NULL THEN 'split' END) AS failed_stage,
       COALESCE(t.error_signature, t.crash_kind, CASE WHEN t.op_id IS NULL THEN 'unsplittable' END) AS cause,
       COALESCE(t.error_message, t.crash_kind, CASE WHEN t.op_id IS NULL THEN o.unsplittable END) AS error,
       COALESCE(t.expected, '') AS expected,
       CASE WHEN t.op_id IS NULL
              OR t.status IN ('compile_failed', 'run_failed', 'golden_failed', 'no_golden', 'timeout', 'crashed')
            THEN 1 ELSE 0 END AS bad,
       CASE WHEN t.status IN ('stopped', 'skipped', 'not_run') THEN 0 ELSE 1 END AS attempted,
       t.pcc, t.cycles, t.l1_peak_bytes, t.dram_peak_bytes, COALESCE(t.ran_on, 'none') AS ran_on, t.flaky, t.repro
FROM placed p
JOIN ops o ON o.op_id = p.op_id
LEFT JOIN op_tests t ON t.run_id = p.run_id AND t.op_id = p.op_id AND t.backend = p.backend;
CREATE VIEW pass_rate AS
-- Share of the attempted ops whose numbers were right, apart for each place of execution: an op that fell back to the
-- host counts as attempted on the device, and as passed in the row of the host only.
WITH attempted AS (
    SELECT run_id, backend, arch, card_type, COUNT(*) AS ops, SUM(uses) AS uses
    FROM op_tests
    WHERE status NOT IN ('stopped', 'skipped', 'not_run')
    GROUP BY run_id, backend, arch, card_type
), passed AS (
    SELECT run_id, backend, arch, card_type, ran_on, COUNT(*) AS ops, SUM(uses) AS uses
    FROM op_tests
    WHERE status = 'success'
    GROUP BY run_id, backend, arch, card_type, ran_on
)
SELECT a.run_id, a.backend, a.arch, a.card_type, COALESCE(p.ran_on, 'none') AS ran_on,
       a.ops AS attempted_ops, COALESCE(p.ops, 0) AS passed_ops,
       1.0 * COALESCE(p.ops, 0) / a.ops AS pass_rate,
       a.uses AS attempted_uses, COALESCE(p.uses, 0) AS passed_uses,
       CASE WHEN a.uses > 0 THEN 1.0 * COALESCE(p.uses, 0) / a.uses END AS pass_rate_of_uses
FROM attempted a
LEFT JOIN passed p
  ON p.run_id = a.run_id AND p.backend = a.backend AND p.arch = a.arch AND p.card_type = a.card_type;
CREATE VIEW performance AS
-- What each op cost: device cycles, time and memory of one execution, cycles of all its uses, and the harness's seconds.
SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, t.op_id, t.op_name, t.op_kind, o.signature, t.model_name,
       t.data_format, t.math_fidelity, t.cycles, t.device_ns, t.l1_peak_bytes, t.dram_peak_bytes,
       t.uses, t.cycles * t.uses AS cycles_of_all_uses, t.seconds
FROM op_tests t
JOIN ops o ON o.op_id = t.op_id
WHERE t.status NOT IN ('stopped', 'skipped', 'not_run');
COMMIT;
