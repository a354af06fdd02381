//! Everything that needs a plugin, on each of those in `TORCH_TPU_TEST_PLUGINS` (colon-separated).
use std::sync::Arc;
use tpu_pjrt::*;
fn clients() -> Vec<Arc<Client>> {
    let list = std::env::var("TORCH_TPU_TEST_PLUGINS").unwrap_or_default();
    list.split(':')
        .filter(|p| !p.is_empty())
        .map(|p| {
            Platform::Cpu
                .client(&Plugin::load(p.as_ref()).unwrap())
                .unwrap()
        })
        .collect()
}
#[test]
fn adds() {
    for client in clients() {
        println!(
            "{:?} {:?} {:?}",
            client,
            client.plugin().api_version(),
            client.plugin().attributes()
        );
        let shape = Shape::new(ElementType::F32, &[2]);
        let text = "module @m { func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
         %y = stablehlo.add %x, %x : tensor<2xf32>
         return %y : tensor<2xf32> } }";
        let signature = Signature {
            inputs: vec![shape.clone()],
            outputs: vec![shape.clone()],
        };
        for o in [CompileOptions::default(), CompileOptions::quick()] {
            let program = client.compile(text, &signature, &o).unwrap();
            let program2 = client
                .deserialize(&program.serialize().unwrap(), &signature)
                .unwrap();
            for program in [program, program2] {
                let data: Vec<u8> = [1f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
                let x = client.buffer_from_host(&data, &shape, 0).unwrap();
                let outputs = program.execute(&mut arguments([x.into()]), 0).unwrap();
                let mut bytes = [0; 8];
                outputs[0].to_host(&mut bytes).unwrap();
                assert_eq!(bytes[..4], 2f32.to_le_bytes());
            }
            println!("{:?}", client);
        }
    }
}

#[test]
fn flags() {
    for client in clients() {
        let shape = Shape::new(ElementType::Bf16, &[2]);
        let text = "module @m { func.func public @main(%x: tensor<2xbf16>) -> tensor<2xbf16> {
         %c = stablehlo.constant dense<0.00390625> : tensor<2xbf16>
         %d = stablehlo.constant dense<1.0> : tensor<2xbf16>
         %y = stablehlo.add %x, %c : tensor<2xbf16>
         %z = stablehlo.add %y, %c : tensor<2xbf16>
         %w = stablehlo.subtract %z, %d : tensor<2xbf16>
         return %w : tensor<2xbf16> } }";
        let signature = Signature {
            inputs: vec![shape.clone()],
            outputs: vec![shape.clone()],
        };
        for flag in [false, true] {
            for quick in [false, true] {
                let o = CompileOptions {
                    quick,
                    overrides: if flag {
                        vec![("xla_allow_excess_precision".into(), true.into())]
                    } else {
                        vec![]
                    },
                    ..Default::default()
                };
                let program = client.compile(text, &signature, &o).unwrap();
                let x = client
                    .buffer_from_host(&[0x80, 0x3f, 0x80, 0x3f], &shape, 0)
                    .unwrap();
                let outputs = program.execute(&mut arguments([x.into()]), 0).unwrap();
                let mut bytes = [0; 4];
                outputs[0].to_host(&mut bytes).unwrap();
                println!("excess {flag} quick {quick} {bytes:x?}");
            }
        }
        for (name, value) in [
            ("xla_nope", OptionValue::Bool(true)),
            ("xla_backend_optimization_level", "abc".into()),
            ("xla_backend_optimization_level", true.into()),
            ("xla_backend_optimization_level", 99.into()),
            ("xla_allow_excess_precision", 3.into()),
            ("xla_disable_hlo_passes", "nopass".into()),
            ("xla_disable_hlo_passes", OptionValue::Bool(true)),
            ("xla_dump_to", OptionValue::Float(1.0)),
            ("", OptionValue::Float(1.0)),
        ] {
            let o = CompileOptions {
                overrides: vec![(name.into(), value)],
                ..Default::default()
            };
            println!(
                "{:?} -> {:?}",
                o.overrides.clone(),
                client.compile(text, &signature, &o).map(|_| ())
            );
        }
        println!("{:?}", client);
    }
}
